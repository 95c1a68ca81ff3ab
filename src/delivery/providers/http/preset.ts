/**
 * Presets: entries for gateways that many have, each a file of data in presets/. An entry that names one gives it its
 * `vars`, and may replace any other part of it.
 */
import { readOwnFile } from "../../../own-files.ts";
import { below } from "../../../otp/json-file.ts";
import { own, type Fault } from "./rules.ts";

export const presetNames = [
  "twilio",
  "twilio-voice",
  "meta-whatsapp",
  "vonage",
  "vonage-voice",
  "infobip",
  "telnyx",
  "sms-gate",
  "kannel",
] as const;

interface Preset {
  /** The names of `vars` that stand in the entry as `<name>`: fixed words, also where no placeholder may be. */
  readonly needs: readonly string[];
  readonly entry: object;
}

/** An entry without a preset, and what was wrong with its use of one. */
export interface Expanded {
  readonly entry: unknown;
  readonly faults: readonly Fault[];
}

/** Puts an entry's preset in its place. Without a preset of its name there is no entry to look at. */
export function expand(given: unknown, pointer: string): Expanded | undefined {
  const asked = own(given, "preset");
  if (asked === undefined) return { entry: given, faults: [] };
  const name = presetNames.find((each) => each === asked);
  if (name === undefined) return undefined;
  const { needs, entry } = presetOf(name);
  const { preset: _, ...rest } = given as Record<string, unknown>;
  const faults: Fault[] = [];
  const values = new Map<string, string>();
  for (const need of needs) {
    const value = own(rest["vars"], need);
    const isWord = typeof value === "string" && /^[A-Za-z0-9._:-]{1,100}$/.test(value);
    values.set(need, isWord ? value : "x");
    const why = value === undefined ? `is missing: the preset ${name} needs it` : "must be a word without spaces";
    if (!isWord) faults.push({ pointer: below(below(pointer, "vars"), need), rest: why });
  }
  const said = filledIn(entry, values) as object;
  const whole = { name, ...said, ...rest, ...localesOf(said, rest) };
  return { entry: withoutReports(whole), faults };
}

/** The entry's own locales stand beside those of the preset. */
function localesOf(said: object, rest: object): object {
  const [usual, given] = [own(said, "locales"), own(rest, "locales")];
  const isMerged = typeof usual === "object" && typeof given === "object" && given !== null && !Array.isArray(given);
  return isMerged ? { locales: { ...usual, ...given } } : {};
}

function presetOf(name: string): Preset {
  return JSON.parse(readOwnFile(`src/delivery/providers/presets/${name}.json`).toString()) as Preset;
}

function filledIn(value: unknown, values: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return value.replaceAll(/<([a-z_]+)>/g, (_, name: string) => values.get(name) ?? "");
  if (Array.isArray(value)) return value.map((item) => filledIn(item, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filledIn(inner, values)]));
}

/** `"reports": null` takes them away, with all that asks for them. */
function withoutReports({ reports, ...entry }: Record<string, unknown>): object {
  if (reports !== null) return reports === undefined ? entry : { ...entry, reports };
  const isKept = ([, value]: [string, unknown]) => typeof value !== "string" || !value.includes("{report_url}");
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(isKept)
        .map(([name, inner]) => [name, strip(inner)]),
    );
  };
  return { ...entry, body: strip(entry["body"]) };
}
