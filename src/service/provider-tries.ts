/**
 * Tries of a provider: an operator has one fixed text sent, to see what a gateway makes of it. Each costs what a message does,
 * so it counts under the caps of the tenant `default`, and there are few of them.
 */
import type { Channel } from "../otp/channel.ts";
import type { KeyRing } from "../otp/key-ring.ts";
import { phoneIndex } from "../otp/phone-number.ts";
import { dayMs, type Policy } from "../otp/policy.ts";
import { spendAll, type Limit } from "../otp/rate-limit.ts";
import { capsOf, countAll, type Bill } from "../otp/spending.ts";
import { nothing, type Decided } from "../otp/writes.ts";
import type { SendView } from "../otp/standing.ts";
import { defaultTenant } from "../otp/tenant.ts";
import type { Store } from "../store/store.ts";

/** Ten at once, and ten a day. */
export const tryLimit: Limit = { burst: 10, intervalMs: dayMs / 10 };

/** Where the tries are counted: no number is spelt so. */
const triesOf = "providers try";

/** May it be made? If not, what stands in the way, and for how long. */
export type TryVerdict =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly by: "tries" | "daily-cap"; readonly retryAfterMs: number };

/** Counts a try, if there is room for one. What came of it gives none back. */
export function spendTry({
  store,
  keys,
  policy,
  region,
  channel,
  price,
}: {
  store: Store;
  keys: KeyRing;
  policy: Policy;
  /** The country that it goes to. */
  region: string;
  channel: Channel;
  /** What it may cost, in millionths. */
  price: Bill["price"];
}): Promise<TryVerdict> {
  const indexes = keys.all.map((key) => phoneIndex(key, defaultTenant, triesOf));
  const phone = { indexes, kid: keys.current.kid, knownUser: false, buckets: 1 };
  const bill = { caps: capsOf(defaultTenant, { region, channel }, policy), price };
  const scope = { tenant: defaultTenant, slot: undefined, phone, caps: bill.caps };
  return store.openVerification(scope, (view) => decideTry(view, bill));
}

function decideTry(view: SendView, bill: Bill): Decided<TryVerdict> {
  const spending = spendAll([tryLimit], view.phone?.tats ?? [], view.now);
  if (!spending.allowed) return nothing({ allowed: false, by: "tries", retryAfterMs: spending.retryAfterMs });
  const counted = countAll(view.days, bill, view.now);
  if (!counted.counted) {
    return nothing({ allowed: false, by: "daily-cap", retryAfterMs: counted.refusal.retryAfterMs ?? 0 });
  }
  return { writes: { tats: spending.tatsMs, ...counted.writes }, result: { allowed: true } };
}
