/**
 * Placeholders: `{name}` in a text of the operator's file, where a value of the message goes. There is nothing but names: no
 * conditions, no functions. What is filled in is encoded for where the text stands.
 */

/** What a text is made of: words as they are, and names of placeholders. */
export type Parts = readonly (string | { readonly placeholder: string })[];

/** The placeholders that come with the service. */
export const builtInPlaceholders: ReadonlySet<string> = new Set([
  "to",
  "to_digits",
  "text",
  "code",
  "from",
  "reference",
  "validity_seconds",
  "locale",
  "locale_name",
  "country",
  "report_url",
  "prompt",
  "speech_url",
]);

/** A value for where it stands in XML. Pure. */
export function inXml(value: string): string {
  const entities: Readonly<Record<string, string>> = { "&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos" };
  return value.replace(/[&<>"']/g, (mark) => `&${entities[mark] ?? ""};`);
}

/** Whether a text of the file is XML, in which values are written as XML has them. Pure. */
export function isXml(text: string): boolean {
  return /^<[A-Za-z?]/.test(text);
}

/** The form of a placeholder's name. */
export const placeholderName = /^[a-z][a-z0-9_]{0,31}$/;

/** The parts of a text; undefined where a brace in it belongs to no placeholder. Pure. */
export function partsOf(text: string): Parts | undefined {
  const parts = text.split(/(\{[a-z][a-z0-9_]{0,31}\})/).filter((part) => part !== "");
  const made = parts.map((part) =>
    part.startsWith("{") && part.endsWith("}") ? { placeholder: part.slice(1, -1) } : part,
  );
  return made.some((part) => typeof part === "string" && /[{}]/.test(part)) ? undefined : made;
}

/** The names of the placeholders in a text. Pure. */
export function placeholdersIn(text: string): string[] {
  return (partsOf(text) ?? []).flatMap((part) => (typeof part === "string" ? [] : [part.placeholder]));
}

/** The text with every placeholder filled; `encode` is given each value. Pure. */
export function fill(
  parts: Parts,
  valueOf: (placeholder: string) => string,
  encode = (value: string) => value,
): string {
  return parts.map((part) => (typeof part === "string" ? part : encode(valueOf(part.placeholder)))).join("");
}
