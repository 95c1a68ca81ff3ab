/**
 * JSON files of the operator's: read whole, judged at once, and told of in sentences that never quote them, since the file may
 * turn out to be another one, such as a key's.
 */
import * as v from "valibot";

/** A value, or what is wrong with the text as the rest of a sentence about the file. */
export type ReadJson = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly rest: string };

/** Reads a text of at most `charsMax` characters, with a byte order mark or without. Pure. */
export function readJsonText(json: string, charsMax: number): ReadJson {
  if (json.length > charsMax) return { ok: false, rest: `is larger than ${charsMax / 1_024} KiB` };
  try {
    return { ok: true, value: JSON.parse(json.replace(/^\uFEFF/, "")) as unknown };
  } catch (error) {
    // The rest of the message quotes the file.
    const [where = ""] = /\(line \d+ column \d+\)/.exec(String(error)) ?? [];
    return { ok: false, rest: `is not JSON ${where}`.trimEnd() };
  }
}

/** Names that the parser of shapes leaves out unseen, in whatever object they are. */
const unreadable = ["__proto__", "constructor", "prototype"] as const;

/** An object, with the sentence for what is not one: to valibot a list is an object too. */
export const object = (message: string) =>
  v.pipe(
    v.custom<object>((value) => typeof value === "object" && value !== null && !Array.isArray(value), message),
    v.rawCheck(({ dataset, addIssue }) => {
      const found = dataset.typed && unreadable.find((name) => Object.hasOwn(dataset.value, name));
      if (found) addIssue({ message: `must not have the name ${found} in it` });
    }),
  );
