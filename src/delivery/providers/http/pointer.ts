/**
 * JSON Pointer (RFC 6901): where something stands in a JSON value. Only what the value has of its own is found, so that no
 * answer is taken for what every object inherits.
 */

/** The form of a pointer to something below the root. */
export const pointerForm = /^(?:\/(?:[^~/]|~[01])*)+$/;

/** What stands there; undefined where nothing does. Pure. */
export function lookUp(value: unknown, pointer: string): unknown {
  return stepsOf(pointer).reduce(ownOf, value);
}

/** The items of all lists that stand there, in order; a step `*` goes to each item of a list. Pure. */
export function lookUpItems(value: unknown, pointer: string): unknown[] {
  let found = [value];
  for (const step of stepsOf(pointer)) {
    found = step === "*" ? found.flatMap(itemsOf) : found.map((each) => ownOf(each, step));
  }
  return found.flatMap(itemsOf);
}

function ownOf(value: unknown, step: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[step];
}

function itemsOf(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

function stepsOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}
