/**
 * The names of this machine, as a browser on it may call the service: whoever reads something because the connection comes
 * from here has to name us rightly too. Else any site could point its own name at this machine (DNS rebinding) and have
 * the browser of somebody on it read along.
 */
import { isIP } from "node:net";
import { isLoopback } from "../../delivery/public-address.ts";

export type HostHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** What a request names as its host, with or without a port. */
export function hostOf(headers: HostHeaders): string | undefined {
  return (headers[":authority"] ?? headers["host"])?.toString();
}

/**
 * Makes the function that judges what a request names as its host, with or without a port: true for localhost, for
 * loopback addresses, and for `names`.
 */
export function createOwnNames(names: readonly string[]): (host: string | undefined) => boolean {
  const own = new Set(["localhost", ...names.map((name) => name.toLowerCase())]);
  return (host) => {
    const [, inBrackets, plain] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/.exec(host ?? "") ?? [];
    if (inBrackets !== undefined)
      return own.has(inBrackets.toLowerCase()) || (isIP(inBrackets) === 6 && isLoopback(inBrackets));
    const name = (plain ?? "").toLowerCase().replace(/\.$/, "");
    return own.has(name) || (isIP(name) === 4 && isLoopback(name));
  };
}
