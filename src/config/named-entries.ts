/**
 * Settings whose entries each have a name, such as `user=5@1h,20@24h,session=3@10m` or `NG=50,KE=0`. A part without a
 * name belongs to the name before it. A change replaces the names that it gives and leaves the others.
 */

/** How a name is kept: two spellings of one name are one entry. */
export type Spelling = (name: string) => string;

const asWritten: Spelling = (name) => name;

/** The entries of a text by their names; undefined where the text does not begin with a name. Pure. */
export function entriesOf(text: string, spell = asWritten): ReadonlyMap<string, readonly string[]> | undefined {
  const byName = new Map<string, string[]>();
  let current: string[] | undefined;
  for (const part of text.split(",").map((each) => each.trim())) {
    const at = part.indexOf("=");
    if (at >= 0) byName.set(spell(part.slice(0, at).trim()), (current = []));
    if (current === undefined) return undefined;
    current.push(part.slice(at + 1).trim());
  }
  return byName;
}

/** A name that a text gives more than once, of which all but the last would be lost. Pure. */
export function nameGivenTwice(text: string, spell: Spelling): string | undefined {
  const parts = text.split(",").filter((part) => part.includes("="));
  const names = parts.map((part) => spell(part.slice(0, part.indexOf("=")).trim()));
  return names.find((name, at) => names.indexOf(name) < at);
}

/** What is written after a name to take it out. */
const none = "none";

/**
 * A setting after a change: names that the change gives are replaced, and those that it gives as `none` are taken out.
 * Undefined where nothing is left. Text that is no list of names is given back as it is: its shape has the fault. Pure.
 */
export function changedEntries(stored: string, given: string, spell = asWritten): string | undefined {
  const [before, changes] = [
    stored === "" ? new Map<string, readonly string[]>() : entriesOf(stored, spell),
    entriesOf(given, spell),
  ];
  if (before === undefined || changes === undefined) return given;
  const left = [...new Map([...before, ...changes])].filter(([, values]) => values.join() !== none);
  return left.length === 0 ? undefined : left.map(([name, values]) => `${name}=${values.join(",")}`).join(",");
}
