/**
 * The providers that OTP_HTTP_PROVIDERS_FILE declares, and the variables that hold their secrets.
 */
import * as v from "valibot";
import type { Description } from "../delivery/providers/description.ts";
import { describeDeclared } from "../delivery/providers/http/description.ts";
import { readHttpProviders } from "../delivery/providers/http/file.ts";
import { providerNames } from "../delivery/providers/list.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import type { Environment } from "./names.ts";

const variable = "OTP_HTTP_PROVIDERS_FILE";

export interface DeclaredProviders {
  readonly descriptions: readonly Description[];
  /** What OTP_PROVIDERS may name of them; undefined where the file does not tell. */
  readonly names: readonly string[] | undefined;
  readonly faults: readonly string[];
  /** Whether a variable holds a secret that the file names. While nobody knows which those are, any may. */
  readonly isSecret: (name: string) => boolean;
}

/** Reads the file that the environment names, if it does. `readFile` may throw. Pure otherwise. */
export function readDeclared(env: Environment, readFile: (path: string) => string): DeclaredProviders {
  const path = env[variable];
  if (!path) return { descriptions: [], names: [], faults: [], isSecret: () => false };
  const isPrefixed = (name: string) => name.startsWith("OTP_HTTP_") && name !== variable;
  let json: string;
  try {
    json = readFile(path);
  } catch (error) {
    const faults = [`${variable} names a file that ${fileTrouble(error) ?? "cannot be read"}.`];
    return { descriptions: [], names: undefined, faults, isSecret: isPrefixed };
  }
  const { declarations, names, faults } = readHttpProviders(json, providerNames);
  if (faults.length > 0) {
    const told = faults.map((rest) => `${variable} ${rest}.`);
    return { descriptions: [], names: names.length === 0 ? undefined : names, faults: told, isSecret: isPrefixed };
  }
  const descriptions = declarations.map(describeDeclared);
  const secrets = new Set(descriptions.flatMap(({ variables }) => Object.keys(variables)));
  return { descriptions, names, faults: [], isSecret: (name) => secrets.has(name) };
}

/** The values of the secrets that are set, and what is wrong with them. */
export function readSecrets(descriptions: readonly Description[], values: Readonly<Record<string, string>>) {
  const read: Record<string, unknown> = {};
  const faults: string[] = [];
  for (const [name, { shape }] of descriptions.flatMap(({ variables }) => Object.entries(variables))) {
    const text = Object.hasOwn(values, name) ? values[name] : undefined;
    if (text === undefined) continue;
    const parsed = v.safeParse(shape, text, { abortPipeEarly: true });
    if (parsed.success) read[name] = parsed.output;
    else faults.push(...parsed.issues.map(({ message }) => `${name} ${message}.`));
  }
  return { values: read, faults: [...new Set(faults)] };
}
