/**
 * Why an address cannot be listened on, with the variables that pick another.
 */
interface Wanted {
  readonly host: string;
  readonly port: number;
  readonly variables?: Variables;
}

/** Where the variables of an address are named. */
export interface Variables {
  readonly host: string;
  readonly port: string;
  /** What of this process listens there already, as far as that is known. */
  readonly takenBy?: string | undefined;
}

const ofCallers: Variables = { host: "OTP_HOST", port: "OTP_PORT" };

/** Why an address could not be had, with the variable that names it. */
export function whyNotBound(error: unknown, { host, port, variables = ofCallers }: Wanted): string {
  const at = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const { code, message } = error as NodeJS.ErrnoException;
  switch (code ?? "") {
    case "EADDRINUSE":
      return `${at} is taken by ${variables.takenBy ?? "another process"}; ${variables.port} picks another`;
    case "EADDRNOTAVAIL":
      return `${variables.host} must be an address of this machine, and ${host} is none; 0.0.0.0 stands for all of them`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `${variables.host} must be an address of this machine or its name, and ${host} is not known`;
    case "EACCES":
      return `${at} is not open to this user, as ports below 1024 mostly are; ${variables.port} picks another`;
    default:
      return `${at} cannot be listened on; ${variables.host} and ${variables.port} pick another: ${message}`;
  }
}
