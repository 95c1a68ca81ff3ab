/**
 * Where the store keeps what it knows of a phone and of its prefix.
 */
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { NamedLimits, SpentLimit } from "../otp/limits/named-limit.ts";
import { phoneIndex, readPhone, type E164 } from "../otp/phone-number.ts";
import type { Policy } from "../otp/verification/policy.ts";
import { prefixOf } from "../otp/limits/pumping-guard.ts";
import { isSandbox } from "../otp/message/sandbox.ts";
import type { TenantOf } from "../otp/operators/tenant.ts";
import type { PhoneOf, PhoneRef, PrefixName, PrefixRef } from "../store/store.ts";

/**
 * Finds where the limits and the history of a verification's phone are kept. Rotated keys need the number itself; a number
 * that cannot be read is known by its own row's index only, and has no prefix.
 */
export function phoneRefs(keys: KeyRing, tenantOf: TenantOf): PhoneOf {
  return ({ tenant, id, kid, phoneIndex: index, phoneBox, knownUser, spentLimits }) => {
    const read = () => readPhone(keys, kid, id, phoneBox);
    const { policy, hasWebhooks, limits: named } = tenantOf(tenant);
    const prefix = prefixRef(policy, tenant, read);
    // Under a key that another has replaced since, a bucket may have moved: what was spent there stays spent.
    const isFound = spentLimits.length > 0 && kid === keys.current.kid;
    const limits = isFound ? limitRefs(spentLimits, named) : undefined;
    const rest = { knownUser, buckets: bucketsOf(tenant, policy), limits, prefix, hasWebhooks };
    const phone = keys.all.length === 1 ? undefined : read();
    if (phone === undefined) return { ...rest, indexes: [index], kid };
    return { ...rest, indexes: keys.all.map((key) => phoneIndex(key, tenant, phone)), kid: keys.current.kid };
  };
}

/** Where the limits are kept that may come back; undefined where there are none. One that is no longer set is left out. */
function limitRefs(spent: readonly SpentLimit[], named: NamedLimits | undefined): PhoneRef["limits"] {
  if (named === undefined) return undefined;
  return spent.flatMap(({ name, index }) => {
    const limits = named.get(name);
    return limits === undefined ? [] : [{ indexes: [index], limits }];
  });
}

/** How many buckets a phone has. The sandbox has none: test runs send to one number all day. */
export function bucketsOf(tenant: string, policy: Policy): number {
  return isSandbox(tenant) ? 0 : policy.phoneLimits.length;
}

/** Where the prefix of a phone is kept. The sandbox has none: it sends nothing, so nothing can be pumped. */
export function prefixRef(policy: Policy, tenant: string, phone: () => E164 | undefined): PrefixRef | undefined {
  if (isSandbox(tenant)) return undefined;
  const name = () => {
    const e164 = phone();
    return e164 === undefined ? undefined : prefixName(tenant, e164);
  };
  return { name, mode: policy.fraudGuard };
}

/** The prefix of a number in a tenant. Pure. */
export function prefixName(tenant: string, e164: E164): PrefixName {
  return { tenant, prefix: prefixOf(e164) };
}
