/**
 * What is wrong with a text, and what an operator should know about it before the first message costs money. A fault
 * refuses the start: the code would not be found, or the text could not be sent. A warning is said once and the text is
 * used: it costs more than it has to, or a phone will not read it by itself.
 *
 * Lengths are those of the longest message that a text can make: with a code of 10 digits, each number of minutes from
 * 1 to 10, each purpose's words, and the configured brand.
 */
import { builtInTemplates } from "./built-in.ts";
import { bytesForAndroid, measure, outsideGsm7 } from "./encoding.ts";
import { withLastLine, type AndroidAppHash } from "./last-line.ts";
import { fill, formFor, minutesMax, placeholders, type Template } from "./template.ts";

/** Longer texts are refused unread. */
const textCharsMax = 500;
/** A longer message costs too much, and arrives in pieces too often. */
const segmentsMax = 3;
/** An Android app is handed a message of at most so many bytes, its hash included. */
const androidBytesMax = 140;

const longestCode = "0".repeat(10);
const anyHash = "0".repeat(11) as AndroidAppHash;
/** Line breaks, and the marks by which Indic and right-to-left scripts join and turn. */
const invisible = /[^\P{Cc}\n]|[^\P{Cf}\u200c-\u200f]/u;

/** What is wrong with the wording of a text, each as the rest of a sentence that begins with its name. Pure. */
export function faultsOfText(text: string): string[] {
  if (text.length > textCharsMax) return [`must have at most ${textCharsMax} characters`];
  const used = [...text.matchAll(/\{([^{}]*)\}/g)].map(([, name = ""]) => name);
  const unknown = new Set(used.filter((name) => !placeholders.some((known) => known === name)));
  const faults: [boolean, string][] = [
    [!text.startsWith("{code}"), "must begin with {code}, so that the code shows in a notification"],
    [used.filter((name) => name === "code").length > 1, "must hold {code} only once"],
    [
      /^\{code\}[\p{L}\p{N}{_-]/u.test(text),
      "must have a space or a mark after {code}, or the code cannot be told apart",
    ],
    [!used.includes("brand"), "must hold {brand}, so that the reader knows who sent it"],
    ...[...unknown].map((name): [boolean, string] => [
      true,
      `has the unknown placeholder {${name}}; there are ${placeholders.map((known) => `{${known}}`).join(", ")}`,
    ]),
    [/[{}]/.test(text.replace(/\{[^{}]*\}/g, "")), "has a brace that belongs to no placeholder"],
    [invisible.test(text) || !text.isWellFormed(), "has a control character or half a character"],
    [/\s$|[^\S\n]\n/u.test(text), "must not have white space at the end of a line"],
  ];
  return faults.flatMap(([isFault, sentence]) => (isFault ? [sentence] : []));
}

/** The longest message that can come of a template, by the segments it takes. Pure. */
function longest(template: Template, brand: string): string {
  const words = [...(template.purposes?.values() ?? [""])];
  const texts = Array.from({ length: minutesMax }, (_, i) => i + 1).flatMap((minutes) =>
    words.map((purpose) =>
      fill(formFor(template, minutes), { code: longestCode, brand, minutes: String(minutes), purpose }),
    ),
  );
  const weight = (text: string) => measure(text).segments * 10_000 + measure(text).units;
  return texts.reduce((a, b) => (weight(b) > weight(a) ? b : a));
}

/** What is said of one template, each as the rest of a sentence that begins with its name. Pure. */
export interface Findings {
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

/** Measures a template whose texts have no faults. Pure. */
export function findingsOf(template: Template, brand: string): Findings {
  const text = longest(template, brand);
  const { encoding, units, segments } = measure(text);
  const size = `${segments} ${segments === 1 ? "segment" : "segments"} (${units} ${encoding} characters)`;
  if (segments > segmentsMax) {
    return { faults: [`takes ${size} at its longest; at most ${segmentsMax} are allowed`], warnings: [] };
  }
  const wording = [...Object.values(template.forms), ...(template.purposes?.values() ?? [])].join("");
  const strangers = outsideGsm7(wording);
  const androidBytes = bytesForAndroid(withLastLine(text, longestCode, { appHash: anyHash }));
  const warnings: [boolean, string][] = [
    [
      strangers.length > 0,
      `has characters outside GSM-7 (${strangers.slice(0, 5).map(named).join(" ")}${strangers.length > 5 ? " …" : ""}), so it is sent as UCS-2: ${size} at its longest`,
    ],
    [strangers.length === 0 && segments > 1, `takes ${size} at its longest, each of which is paid for`],
    [
      androidBytes > androidBytesMax,
      `takes ${androidBytes} bytes at its longest with an android_app_hash below it; Android apps are handed at most ${androidBytesMax}`,
    ],
    [/\p{N}{4}/u.test(wording), "has a number of 4 or more digits, which a phone may offer instead of the code"],
  ];
  return { faults: [], warnings: warnings.flatMap(([isWarning, sentence]) => (isWarning ? [sentence] : [])) };
}

/**
 * What the brand does to the texts that come with the service, each a whole sentence without its full stop. `name` is what
 * the brand is set by. Pure.
 */
export function warningsOfBrand(brand: string, name = "OTP_BRAND"): string[] {
  const strangers = outsideGsm7(brand);
  if (strangers.length > 0) {
    return [
      `${name} has characters outside GSM-7 (${strangers.slice(0, 5).map(named).join(" ")}): every SMS is sent as UCS-2, 70 characters a segment instead of 160`,
    ];
  }
  const tight = builtInTemplates.filter((template) => findingsOf(template, brand).warnings.length > 0);
  if (tight.length === 0) return [];
  return [
    `${name} is long: the texts in ${tight.map(({ locale }) => locale).join(", ")} no longer fit one segment, or Android's ${androidBytesMax} bytes with an android_app_hash`,
  ];
}

/** A character as it can be told in a log: itself, or its number where nothing would show. */
function named(character: string): string {
  return /[\p{L}\p{N}\p{P}\p{S}]/u.test(character)
    ? character
    : `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
