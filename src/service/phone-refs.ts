/**
 * Where the store keeps what it knows of a phone.
 */
import type { KeyRing } from "../otp/key-ring.ts";
import { phoneIndex, readPhone } from "../otp/phone-number.ts";
import type { Policy } from "../otp/policy.ts";
import { isSandbox } from "../otp/sandbox.ts";
import type { TenantOf } from "../otp/tenant.ts";
import type { PhoneOf } from "../store/store.ts";
import { prefixRef } from "./prefixes.ts";

/**
 * Where a phone's limits and past are kept, for a verification at hand. Rotated keys are looked up by the number itself; a
 * number that cannot be read is known by its own row's index alone, and has no prefix.
 */
export function phoneRefs(keys: KeyRing, tenantOf: TenantOf): PhoneOf {
  return ({ tenant, id, kid, phoneIndex: index, phoneBox, knownUser }) => {
    const read = () => readPhone(keys, kid, id, phoneBox);
    const { policy, hasWebhooks } = tenantOf(tenant);
    const prefix = prefixRef(policy, tenant, read);
    const rest = { knownUser, buckets: bucketsOf(tenant, policy), prefix, hasWebhooks };
    const phone = keys.all.length === 1 ? undefined : read();
    if (phone === undefined) return { ...rest, indexes: [index], kid };
    return { ...rest, indexes: keys.all.map((key) => phoneIndex(key, tenant, phone)), kid: keys.current.kid };
  };
}

/** How many buckets a phone has. The sandbox is for test runs, which send to one number all day. */
export function bucketsOf(tenant: string, policy: Policy): number {
  return isSandbox(tenant) ? 0 : policy.phoneLimits.length;
}
