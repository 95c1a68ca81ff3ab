/**
 * JSON Pointer (RFC 6901): where something stands in a JSON value. Only what the value has of its own is found, so that no
 * answer is taken for what every object inherits.
 */

/** The form of a pointer to something below the root. */
export const pointerForm = /^(?:\/(?:[^~/]|~[01])*)+$/;

/** What stands there; undefined where nothing does. Pure. */
export function lookUp(value: unknown, pointer: string): unknown {
  let found = value;
  for (const step of stepsOf(pointer)) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, step)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[step];
  }
  return found;
}

function stepsOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}
