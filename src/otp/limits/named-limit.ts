/**
 * Named limits: what sends are counted by beside their phone, such as the user or the address that a caller's own system
 * knows. A tenant says which there are (`user=5@1h,20@24h`), a send says whose they are (`limit_keys`). A value is the
 * caller's and may be anything personal, so all that is kept of it is an HMAC that nobody without the master key can make.
 *
 * They count sends. Resends and fallbacks do not count: gaps and the phone's own limits bound them. A send that was
 * verified does not come back: whoever pumps messages to phones of his own verifies them all. A send of which nothing
 * has left comes back, whichever ways it was tried by. So its verification keeps the HMACs until one of its messages
 * may have left.
 */
import type { Instant } from "../../system.ts";
import { hmac, type KeyRing } from "../keys/key-ring.ts";
import { giveBackAll, spendAll, type Limit } from "./rate-limit.ts";
import { invalid, ok, refuse, type Refusal, type Result } from "../reason.ts";

/** A tenant's limits, by their names. */
export type NamedLimits = ReadonlyMap<string, readonly Limit[]>;

/** How many names a tenant may have. */
export const limitNamesMax = 16;
/** How many a send may give. */
export const limitKeysMax = 4;
/** How many limits one name may have. */
export const limitsOfNameMax = 4;
export const limitValueCharsMax = 256;

/** What a limit may be called. Pure. */
export function isLimitName(text: string): boolean {
  return /^[a-z][a-z0-9_-]{0,31}$/.test(text);
}

/** The field of a request that a name stands for. Pure. */
export function limitField(name: string): string {
  return `limit_keys.${name}`;
}

/** A limit that a send is counted by. */
export interface LimitKey {
  readonly name: string;
  readonly limits: readonly Limit[];
  /** Where its buckets are: the value's HMAC under every configured master key, the current one first. */
  readonly indexes: readonly Uint8Array[];
}

/** As long as a phone's index, and never equal to one: made with another key. */
const indexBytes = 16;

/** The limits that a send gives, in the order of their names; or INVALID_REQUEST for one that the tenant has not set. Pure. */
export function limitKeysOf(
  keys: KeyRing,
  { id, limits }: { readonly id: string; readonly limits?: NamedLimits | undefined },
  given: Readonly<Record<string, string>>,
): Result<readonly LimitKey[]> {
  const found: LimitKey[] = [];
  for (const [name, value] of Object.entries(given).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const own = limits?.get(name);
    if (own === undefined) return invalid(limitField(name), `${limitField(name)} is not a limit of this tenant.`);
    const indexes = keys.all.map((key) => hmac(key.namedLimit, id, name, value).subarray(0, indexBytes));
    found.push({ name, limits: own, indexes });
  }
  return ok(found);
}

/** A limit that a send was counted by, as long as it may come back. */
export interface SpentLimit {
  readonly name: string;
  /** Where its buckets are, under the master key of its verification. */
  readonly index: Uint8Array;
}

/** What a verification keeps of the limits that its send gives. Pure. */
export function spentLimits(limitKeys: readonly LimitKey[]): readonly SpentLimit[] {
  return limitKeys.flatMap(({ name, indexes: [index] }) => (index === undefined ? [] : [{ name, index }]));
}

/** The TATs of a limit's buckets, in the limits' order; 0 for a new one. */
export type LimitTats = readonly Instant[];

/**
 * Takes one from every bucket of every limit, or from none; `tats` are those of each limit. When refused, the limit that asks
 * for the longest wait is named, and `tats` are there only if one was too far ahead (rate-limit.ts). Pure.
 */
export function spendNamed(
  limitKeys: readonly LimitKey[],
  tats: readonly LimitTats[],
  now: Instant,
):
  | { readonly allowed: true; readonly tats: readonly LimitTats[] }
  | { readonly allowed: false; readonly refusal: Refusal; readonly tats?: readonly LimitTats[] } {
  const spendings = limitKeys.map(({ limits }, i) => spendAll(limits, tats[i] ?? [], now));
  let [named, retryAfterMs] = ["", 0];
  for (const [i, spending] of spendings.entries()) {
    if (spending.allowed || spending.retryAfterMs <= retryAfterMs) continue;
    [named, retryAfterMs] = [limitKeys[i]?.name ?? "", spending.retryAfterMs];
  }
  if (retryAfterMs === 0) return { allowed: true, tats: spendings.map(({ tatsMs = [] }) => tatsMs) };
  const { refusal } = refuse("LIMIT_REACHED", {
    field: limitField(named),
    retryAfterMs,
    metadata: { limit: named },
  });
  const isCorrected = spendings.some((spending) => !spending.allowed && spending.tatsMs !== undefined);
  if (!isCorrected) return { allowed: false, refusal };
  // What would have been spent of the others is not.
  const corrected = spendings.map((spending, i) => (spending.allowed ? undefined : spending.tatsMs) ?? tats[i] ?? []);
  return { allowed: false, refusal, tats: corrected };
}

/** Gives one back to every bucket of every limit. Pure. */
export function giveBackNamed(
  limits: readonly (readonly Limit[])[],
  tats: readonly LimitTats[],
  now: Instant,
): readonly LimitTats[] {
  return limits.map((own, i) => giveBackAll(own, tats[i] ?? [], now, 1));
}
