/**
 * JSON files of the operator's: read whole, judged at once, and told of in sentences that never quote them, since the file may
 * turn out to be another one, such as a key's.
 */
import * as v from "valibot";

/** A value, or what is wrong with the text as the rest of a sentence about the file. */
export type ReadJson =
  | {
      readonly ok: true;
      readonly value: unknown;
      /** Pointers of names that an object gives more than once: of their values only the last is in `value`. */
      readonly repeated: readonly string[];
    }
  | { readonly ok: false; readonly rest: string };

/** Reads a text of at most `charsMax` characters, with a byte order mark or without. Pure. */
export function readJsonText(json: string, charsMax: number): ReadJson {
  if (json.length > charsMax) return { ok: false, rest: `is larger than ${charsMax / 1_024} KiB` };
  try {
    const value = JSON.parse(json.replace(/^\uFEFF/, "")) as unknown;
    return { ok: true, value, repeated: [...new Set(repeatedIn(json))] };
  } catch (error) {
    // The rest of the message quotes the file.
    const [where = ""] = /\(line \d+ column \d+\)/.exec(String(error)) ?? [];
    return { ok: false, rest: `is not JSON ${where}`.trimEnd() };
  }
}

/** An object or a list that the look through a text is in. */
interface Open {
  /** The names that an object has so far; undefined of a list. */
  readonly names: Set<string> | undefined;
  /** Whether a text that comes next is a name. */
  isNameNext: boolean;
  /** The name or the place of what is looked at. */
  step: string | number;
}

/** Names that come again in their object, as pointers, in a text that is JSON. */
function repeatedIn(json: string): string[] {
  const [found, open]: [string[], Open[]] = [[], []];
  for (const [token] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],]/g)) {
    const at = open.at(-1);
    if (token === "{") open.push({ names: new Set(), isNameNext: true, step: "" });
    else if (token === "[") open.push({ names: undefined, isNameNext: false, step: 0 });
    else if (token === "}" || token === "]") open.pop();
    else if (at === undefined) continue;
    else if (token !== ",") {
      if (!at.isNameNext || at.names === undefined) continue;
      const name = JSON.parse(token) as string;
      // Of a file that is another one no long or hidden text is told.
      [at.step, at.isNameNext] = [/^\P{C}{0,100}$/u.test(name) ? name : "…", false];
      if (at.names.has(name)) found.push(open.reduce((pointer, { step }) => below(pointer, step), ""));
      at.names.add(name);
    } else if (typeof at.step === "number") at.step++;
    else at.isNameNext = true;
  }
  return found;
}

/** The pointer (RFC 6901) to what is called `name` below another one. Pure. */
export function below(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** What is wrong with a name that is given twice, behind its pointer. */
export const givenTwice = "is given twice";

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
