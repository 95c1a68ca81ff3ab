/**
 * What an admin of one tenant may do with its settings: make them stricter, and choose its own words. Caps and limits
 * bound what the operator pays for, so that admin raises none. Nor may that admin change whom receipts are for: a
 * receipt in another's name would be believed there.
 */
import type { NamedLimits } from "../limits/named-limit.ts";
import type { Limit } from "../limits/rate-limit.ts";
import type { Tenant } from "./tenant.ts";

/** Whether a setting is as strict after a change as it was before. */
type Holds = (before: Tenant, after: Tenant) => boolean;

/** An absent cap caps nothing. */
const noHigher = (before: number | undefined, after: number | undefined) =>
  before === undefined || (after !== undefined && after <= before);

/** An absent set is all there is. */
const within = (before: ReadonlySet<string> | undefined, after: ReadonlySet<string> | undefined) =>
  before === undefined || (after !== undefined && [...after].every((each) => before.has(each)));

/** Each limit from before is still held, by one as strict. */
const asStrict = (before: readonly Limit[], after: readonly Limit[]) =>
  before.every(({ burst, intervalMs }) =>
    after.some((limit) => limit.burst <= burst && limit.intervalMs >= intervalMs),
  );

const asStrictByName = (before: NamedLimits = new Map(), after: NamedLimits = new Map()) =>
  [...before].every(([name, limits]) => asStrict(limits, after.get(name) ?? []));

const holds: ReadonlyMap<string, Holds> = new Map(
  Object.entries({
    countries: (before, after) => within(before.policy.allowedCountries, after.policy.allowedCountries),
    phone_limits: (before, after) => asStrict(before.policy.phoneLimits, after.policy.phoneLimits),
    resend_gaps: ({ policy: { resendGapsMs: before } }, { policy: { resendGapsMs: after } }) =>
      after.length <= before.length && after.every((gapMs, place) => gapMs >= (before[place] ?? 0)),
    code_length: (before, after) => after.policy.codeLength >= before.policy.codeLength,
    code_length_max: (before, after) => after.policy.codeLengthMax >= before.policy.codeLengthMax,
    ttl_seconds: (before, after) => after.policy.ttlMs <= before.policy.ttlMs,
    max_attempts: (before, after) => after.policy.attemptsMax <= before.policy.attemptsMax,
    daily_cap: (before, after) => noHigher(before.policy.dailyMessagesMax, after.policy.dailyMessagesMax),
    country_caps: (before, after) =>
      [...(before.policy.countryCaps ?? [])].every(([country, max]) =>
        noHigher(max, after.policy.countryCaps?.get(country)),
      ),
    daily_spend_cap: (before, after) => noHigher(before.policy.dailySpend?.max, after.policy.dailySpend?.max),
    limits: (before, after) => asStrictByName(before.limits, after.limits),
    fraud_guard: (before, after) => before.policy.fraudGuard === "observe" || after.policy.fraudGuard === "enforce",
    audience: (before, after) => before.audience === after.audience,
    origins: (before, after) => within(before.origins, after.origins),
  } satisfies Record<string, Holds>),
);

/** The settings that a change would loosen, which is for admins of no tenant alone. Pure. */
export function loosened(before: Tenant, after: Tenant): readonly string[] {
  return [...holds].filter(([, isHeld]) => !isHeld(before, after)).map(([setting]) => setting);
}
