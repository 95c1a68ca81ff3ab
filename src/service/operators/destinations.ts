/**
 * What an operator does with a tenant's lists of destinations.
 */
import { phoneSubject, type Author } from "../../otp/operators/audit.ts";
import { isPrefix, type Destination, type Verdict } from "../../otp/verification/destination.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { maskPhone, parsePhoneNumber } from "../../otp/phone-number.ts";
import type { DestinationNote } from "../../store/registry.ts";
import type { Store } from "../../store/store.ts";

export const noteCharsMax = 200;

/** An entry's prefix, or what is wrong with it: its shape, or that its number is written in another way, which is told. */
export type ReadPrefix =
  | { readonly kind: "prefix"; readonly prefix: string }
  | { readonly kind: "malformed" }
  | { readonly kind: "misspelt"; readonly written: string };

/** Reads a prefix. Numbers are compared in their canonical form: an entry in another would never match. Pure. */
export function readPrefix(text: string): ReadPrefix {
  if (!isPrefix(text)) return { kind: "malformed" };
  const parsed = parsePhoneNumber(text);
  if (parsed.ok && parsed.value.e164 !== text) return { kind: "misspelt", written: parsed.value.e164 };
  return { kind: "prefix", prefix: text };
}

/** What makes a number of its beginning: four digits, as the pumping guard counts, or more where numbers are long. */
const endings = [4, 5, 6, 7, 8].map((count) => "0".repeat(count));

/**
 * True for a prefix that is a whole number, or all but the last digits of one. Number plans grow stale: what is of no plan,
 * and the beginning of nothing in one, is taken for a number. Pure.
 */
export function isWholeNumber(prefix: string): boolean {
  const parsed = parsePhoneNumber(prefix);
  if (!parsed.ok || parsed.value.kind !== "unknown") return parsed.ok;
  return !endings.some((ending) => {
    const longer = parsePhoneNumber(prefix + ending);
    return longer.ok && longer.value.kind !== "unknown";
  });
}

/** Who changes a list, and the keys that tell a number by its index; without keys at hand it is masked. */
export interface ListAuthor {
  readonly by: Author;
  readonly keys: KeyRing | undefined;
}

/** Puts an entry on a tenant's lists, in place of one with its prefix; false if there is no such tenant. */
export function putDestination({ registry }: WithRegistry, entry: Destination, author: ListAuthor): Promise<boolean> {
  const action = entry.verdict === "block" ? "destination.block" : "destination.allow";
  return registry.putDestination(entry, destinationNote(author, action, entry));
}

/** Removes an entry; false if there is none, or it is of another verdict than `only`. */
export function removeDestination(
  { registry }: WithRegistry,
  entry: Pick<Destination, "tenant" | "prefix">,
  author: ListAuthor,
  only?: Verdict,
): Promise<boolean> {
  const note = destinationNote(author, "destination.remove", entry);
  return registry.removeDestination(entry.tenant, entry.prefix, note, only);
}

type WithRegistry = Pick<Store, "registry">;

function destinationNote(
  { by, keys }: ListAuthor,
  action: "destination.block" | "destination.allow" | "destination.remove",
  { tenant, prefix }: Pick<Destination, "tenant" | "prefix">,
): DestinationNote {
  if (!isWholeNumber(prefix)) return { by, action, subject: prefix };
  if (keys === undefined) return { by, action, subject: maskPhone(prefix) };
  return { by, action, subject: phoneSubject(keys.current, tenant, prefix) };
}
