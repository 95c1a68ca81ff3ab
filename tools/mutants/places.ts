/**
 * Finds the place of a mutant: a function by its name, and a text within it. So the rest of a file may change and move
 * without the list, and a text has to be unique in its function alone.
 */
import { declaredIn } from "../declared.ts";

/** A mistake and where it is made. */
export interface Change {
  /** A file and the function in it: `src/otp/message/code.ts#deriveCode`, or `….ts#Store.open` where two are called `open`. */
  readonly place: string;
  /** Occurs exactly once in the function. */
  readonly text: string;
  readonly replacement: string;
}

/**
 * The source with the mistake in it.
 *
 * @throws Error, when the place is not there, or more than once
 */
export function withMistake(source: string, { place, text, replacement }: Change): string {
  const name = place.slice(place.indexOf("#") + 1);
  const called = declaredIn(source).filter((declared) => `.${declared.name}`.endsWith(`.${name}`));
  const [only] = called;
  if (only === undefined) throw new Error(`${place} is not there`);
  if (called.length > 1) throw new Error(`${place} is one of ${called.map((one) => one.name).join(", ")}`);
  const lines = source.split("\n");
  const before = lines.slice(0, only.startLine).map((line) => `${line}\n`);
  const body = lines.slice(only.startLine, only.endLine).join("\n");
  const times = body.split(text).length - 1;
  if (times !== 1) throw new Error(`${place} has the text ${times} times: ${text}`);
  return before.join("") + body.replace(text, () => replacement) + source.slice(before.join("").length + body.length);
}

/** The file of a place. */
export function fileOf({ place }: Change): string {
  return place.slice(0, place.indexOf("#"));
}
