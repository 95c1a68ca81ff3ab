/**
 * The sweep: what has lapsed is ended, and what no longer matters is deleted, a bounded number of rows at a time. What may
 * be forgotten is decided here, for every database.
 */
import { auditMs } from "../otp/operators/audit.ts";
import { verificationEvents } from "../otp/decisions/event.ts";
import { dayOf, isForgettable } from "../otp/verification/policy.ts";
import { isPrefixForgettable, prefixMemoryMs } from "../otp/limits/pumping-guard.ts";
import { oldestMinute } from "../otp/verification/spraying.ts";
import { expire, stateAt, type Verification } from "../otp/verification/verification.ts";
import type { Instant } from "../system.ts";
import { forgetSums, type SumNext } from "./acts/sums.ts";
import { countedPrefixOf, countOutcome } from "./apply.ts";
import type { Engine, Found, Horizon, Round } from "./engine.ts";
import { idText } from "./rows/values.ts";
import { toHistory } from "./rows/phone.ts";
import { toPrefix } from "./rows/prefix.ts";
import type { PhoneOf, StoreWatchers, Sweeping, Swept } from "./store.ts";

/** A tenant's days are kept for so long: a clock that was set back may come by one again. */
const daysKept = 7;

const sql = {
  lapsed: {
    name: "lapsed",
    text: `SELECT id FROM verifications WHERE end_ms IS NULL AND expire_ms <= $1 ORDER BY expire_ms LIMIT $2`,
  },
  anyEndpoint: { name: "any-endpoint", text: `SELECT 1 FROM webhook_endpoints WHERE disable_ms IS NULL LIMIT 1` },
};

const beforeAll = new Uint8Array();
const noRound: Round = { buckets: undefined, phones: undefined, records: undefined, prefixes: undefined };
const newRound: Round = { buckets: beforeAll, phones: beforeAll, records: beforeAll, prefixes: ["", ""] };

/** Makes the sweep. It remembers where its round has come to. */
export function createSweep(engine: Engine, sumNext: SumNext, onExpired?: StoreWatchers["onExpired"]) {
  let round = newRound;

  return async function sweep(
    max: number,
    retentionMs: number,
    phoneOf?: PhoneOf,
    what: Sweeping = "all",
  ): Promise<Swept> {
    const from = what === "all" ? round : noRound;
    const now = engine.now();
    const lapsed = (await engine.query<{ id: Uint8Array }>(sql.lapsed, [now, max])).map(({ id }) => idText(id));
    const { ended, faults } = await endLapsed(engine, lapsed, phoneOf);
    if (onExpired !== undefined) ended.forEach(onExpired);
    // What has ended is told of all the same: nobody comes by it again.
    if (faults.length > 0) throw faults[0];
    const summing = await sumNext(max, retentionMs);
    if (what === "all" && from === newRound) await forgetSums(engine);
    const horizon: Horizon = {
      now,
      max,
      from,
      // What is not summed is not deleted.
      endedMs: Math.min(now - retentionMs, summing.summedMs),
      minute: oldestMinute(now),
      decidedMs: now - prefixMemoryMs,
      auditMs: now - auditMs,
      day: dayOf(now) - daysKept,
    };
    const { found, count, more } = await engine.deleteForgettable(horizon, (rows) => forgettableOf(rows, now));
    const hasMore = more || summing.more || lapsed.length === max;
    if (what !== "all") return { expired: ended.length, deleted: count, more: hasMore };
    const next: Round = {
      buckets: nextFrom(found.buckets, max, ({ bucket }) => bucket),
      phones: nextFrom(found.phones, max, ({ phone_index }) => phone_index),
      records: nextFrom(found.records, max, ({ slot }) => slot),
      prefixes: nextFrom(found.prefixes, max, ({ tenant, prefix }) => [tenant, prefix] as const),
    };
    // A short table waits for the long ones: begun again each time it is through, it could miss their ends for ever.
    const isThrough = Object.values(next).every((key) => key === undefined);
    round = isThrough ? newRound : next;
    return { expired: ended.length, deleted: count, more: !isThrough || hasMore };
  };
}

interface Ended {
  readonly ended: Verification[];
  readonly faults: unknown[];
}

/** Ends what has lapsed, as an act on each like any other. Resolves with what it ended, and why it could not end the rest. */
async function endLapsed(engine: Engine, ids: readonly string[], phoneOf?: PhoneOf): Promise<Ended> {
  if (ids.length === 0) return { ended: [], faults: [] };
  const isHeard = (await engine.query(sql.anyEndpoint, [])).length > 0;
  const ended = ids.map((verificationId) =>
    engine.perform<Verification | undefined>({
      verificationId,
      prefix: (unit) => phoneOf && countedPrefixOf(unit.verification(verificationId), phoneOf),
      run(unit) {
        const verification = unit.verification(verificationId);
        if (verification?.state !== "PENDING" || stateAt(verification, unit.now) === "PENDING") return undefined;
        const expired = expire(verification);
        unit.updateVerification(expired);
        if (isHeard) verificationEvents(verification, expired, [], unit.now).forEach((event) => unit.owe(event));
        countOutcome(unit, expired, phoneOf?.(expired).prefix);
        return expired;
      },
    }),
  );
  const settled = await Promise.allSettled(ended);
  return {
    ended: settled.flatMap((each) => (each.status === "fulfilled" && each.value !== undefined ? [each.value] : [])),
    faults: settled.flatMap((each) => (each.status === "rejected" ? [each.reason as unknown] : [])),
  };
}

/** What of the rows may be forgotten. Pure. */
function forgettableOf({ buckets, phones, records, prefixes }: Found, now: Instant): Found {
  return {
    buckets: buckets.filter(({ tat_ms }) => tat_ms <= now),
    phones: phones.filter((row) => isForgettable(toHistory(row), now)),
    records: records.filter(({ expire_ms }) => expire_ms <= now),
    prefixes: prefixes.filter((row) => isPrefixForgettable(toPrefix(row), now)),
  };
}

function nextFrom<Row, Key>(found: readonly Row[], max: number, keyOf: (row: Row) => Key): Key | undefined {
  const last = found.at(-1);
  return found.length < max || last === undefined ? undefined : keyOf(last);
}
