/**
 * Fallbacks: takes the verifications whose next channel's turn has come, and claims the message of each that owes one.
 */
import type { Channel } from "../otp/channel.ts";
import { listedNumber } from "../otp/verification/destination.ts";
import { decideFallback } from "../otp/decisions/falling-back.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import { openPhone } from "../otp/phone-number.ts";
import { capsOf, type PriceOf } from "../otp/decisions/spending.ts";
import type { TenantOf } from "../otp/operators/tenant.ts";
import type { Job, PhoneOf, Store } from "../store/store.ts";

export interface FallbackTools {
  readonly store: Pick<Store, "claimFallbacks">;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  readonly phoneOf: PhoneOf;
  /** The channels that a provider is configured for. */
  readonly channelsOn: readonly Channel[];
  /** Tells what a message may cost; absent without prices. */
  readonly priceOf?: PriceOf | undefined;
}

/** Claims up to `max` messages that are owed by fallback. */
export function claimFallbacks(
  { store, keys, tenantOf, phoneOf, channelsOn, priceOf }: FallbackTools,
  max: number,
): Promise<Job[]> {
  const policyOf = (tenant: string) => tenantOf(tenant).policy;
  return store.claimFallbacks(max, {
    phoneOf,
    numberOf: ({ tenant, kid, id, phoneBox }) => listedNumber(tenant, openPhone(keys, kid, id, phoneBox)),
    // Whichever channel is next: a call is counted by all that a message is, and more.
    capsOf: ({ tenant, region }) => capsOf(tenant, { region, channel: "voice" }, policyOf(tenant)),
    decide: (view) => decideFallback(view, { policy: policyOf(view.verification.tenant), channelsOn, priceOf }),
  });
}
