/**
 * What an entry of the audit changed, in a line: the fields that differ between before and after, as people read them.
 */
import type { AuditEntry } from "./audit.ts";

/** The longest line; the entry itself has all. */
const charsMax = 200;

/**
 * Tells what changed, such as `settings.daily_cap: 500 → 200; brand: – → Acme`; of what was made or merely noted its fields, `gone`
 * of what is gone, and nothing where no field differs. At most 200 characters. Pure.
 */
export function changeText({ before, after }: Pick<AuditEntry, "before" | "after">): string {
  if (after === "") return before === "" ? "" : "gone";
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...was.keys(), ...is.keys()])];
  const said = names
    .filter((name) => was.get(name) !== is.get(name))
    .map((name) => {
      const now = is.get(name) ?? none;
      return before === "" ? `${name}: ${now}` : `${name}: ${was.get(name) ?? none} → ${now}`;
    })
    .join("; ");
  if (said.length <= charsMax) return said;
  // The cut may go through a character of two halves, of which JSON takes none alone.
  return `${said.slice(0, charsMax - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

const none = "–";

/** The fields of an object in JSON by their paths; those that say nothing are left out. */
function fieldsOf(json: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const add = (path: string, value: unknown): void => {
    if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) return;
    if (typeof value === "object" && !Array.isArray(value)) {
      for (const [name, each] of Object.entries(value)) add(path === "" ? name : `${path}.${name}`, each);
    } else if (path !== "") fields.set(path, textOf(value));
  };
  add("", json === "" ? {} : (JSON.parse(json) as unknown));
  return fields;
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.join(", ");
  return JSON.stringify(value);
}
