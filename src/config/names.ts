/**
 * The names in the environment: our variables, paths of files with secrets, and names that are unknown.
 */
import { fileTrouble } from "../store/file-trouble.ts";
import { secretNames, variables } from "./variables.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** What Kubernetes injects into every pod for a Service named `otp`. */
const injected = /^OTP_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;

/**
 * Picks our variables out of the environment, reads the files of secrets, and finds the unknown names. `isDeclared` tells the
 * secrets that the file of providers names.
 */
export function collect(env: Environment, readFile: (path: string) => string, isDeclared: (name: string) => boolean) {
  const values: Record<string, string> = {};
  const named = new Set<string>();
  const faults: string[] = [];
  const ignored: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    // An empty variable is an unset one, as in most deployment files.
    if (!name.startsWith("OTP_") || value === undefined || value === "") continue;
    if (injected.test(name) || (name === "OTP_PORT" && /^(tcp|udp|sctp):\/\//.test(value))) {
      ignored.push(name);
    } else if (Object.hasOwn(variables.entries, name) || isDeclared(name)) {
      values[name] = value;
      named.add(name);
    } else if (name.endsWith("_FILE") && (secretNames.has(withoutFile(name)) || isDeclared(withoutFile(name)))) {
      const secret = withoutFile(name);
      named.add(secret);
      const text = secretInFile(env, secret, readFile, faults);
      if (text !== undefined) values[secret] = text;
    } else {
      faults.push(`${name} is not a known variable.${nearest(name)}`);
    }
  }
  const warnings =
    ignored.length === 0
      ? []
      : [`ignored ${ignored.join(", ")}: they look like Kubernetes' variables for a Service named otp`];
  return { values, named, faults, warnings };
}

function withoutFile(name: string): string {
  return name.slice(0, -"_FILE".length);
}

/** The text of the file that `<secret>_FILE` names, if it is set. Faults are added to `faults`. */
export function secretInFile(
  env: Environment,
  secret: string,
  readFile: (path: string) => string,
  faults: string[],
): string | undefined {
  const name = `${secret}_FILE`;
  const path = env[name];
  if (!path) return undefined;
  if (env[secret]) faults.push(`${secret} and ${name} are both set; set one of them.`);
  try {
    return readFile(path).trim();
  } catch (error) {
    // Without its path: a key that was set in the wrong variable stands there.
    faults.push(`${name} names a file that ${fileTrouble(error) ?? "cannot be read"}.`);
    return undefined;
  }
}

/** " Did you mean …?" for a name one or two letters off. */
function nearest(name: string): string {
  const known = Object.keys(variables.entries).find((candidate) => editDistance(candidate, name) <= 2);
  return known === undefined ? "" : ` Did you mean ${known}?`;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      next.push(Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (letter === other ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
