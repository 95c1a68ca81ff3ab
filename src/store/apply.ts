/**
 * Before a decision and after it, for every database: what it is shown of a phone, and the one place where it becomes
 * changes. What is kept of a phone may be under any of the master keys: its rows are read as one, and written under the
 * current key.
 */
import { eventsOf, fraudEvent, spendEvent, type Loaded } from "../otp/decisions/event.ts";
import { dayOf, emptyHistory, type PhoneHistory } from "../otp/verification/policy.ts";
import { recordOutcome, type PrefixChange } from "../otp/limits/pumping-guard.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Decided, PhoneView, Writes } from "../otp/decisions/writes.ts";
import type { Instant } from "../system.ts";
import { lanes, mergeHistories } from "./rows/phone.ts";
import type { PhoneOf, PhoneRef, PrefixName, PrefixRef } from "./store.ts";
import type { PhoneRows, PhonesUnit, UnitOfWork } from "./unit-of-work.ts";

/** What was decided about. */
interface Subject extends Omit<Loaded, "now"> {
  readonly tenant: string;
  readonly phone: PhoneRef | undefined;
}

/** Writes what was decided, and gives the result. */
export function apply<R>(
  unit: UnitOfWork,
  { tenant, phone: ref, verification: before, message, earlier }: Subject,
  { writes, result }: Decided<R>,
): R {
  const after = writes.verification;
  if (after !== undefined && after !== before) {
    if (before === undefined) unit.insertVerification(after);
    else unit.updateVerification(after);
  }
  if (writes.earlier !== undefined) unit.putMessage(writes.earlier);
  if (writes.message !== undefined) unit.putMessage(writes.message);
  if (ref !== undefined) putPhone(unit, ref, writes);
  if (writes.guess !== undefined) unit.countGuess(writes.guess);
  const name = writes.prefix === undefined ? undefined : ref?.prefix?.name();
  if (writes.prefix !== undefined && name !== undefined) changePrefix(unit, name, writes.prefix);
  if (before?.state === "PENDING" && after !== undefined && after.state !== "PENDING") {
    countOutcome(unit, after, ref?.prefix);
  }
  if (writes.record !== undefined) unit.putRecord(writes.record);
  if (ref?.hasWebhooks === true) {
    for (const event of eventsOf(writes, { verification: before, message, earlier, now: unit.now })) unit.owe(event);
  }
  if (writes.days !== undefined || writes.warned !== undefined) putDays(unit, tenant, writes);
  if (writes.audit !== undefined) unit.note(writes.audit);
  return result;
}

/** Writes counts of a tenant's day, and the events of shares of its caps that were reached. */
export function putDays(unit: UnitOfWork, tenant: string, writes: Pick<Writes, "days" | "warned">): void {
  for (const [kind, daily] of writes.days ?? []) unit.putDay(tenant, kind, daily);
  for (const warning of writes.warned ?? []) unit.owe(spendEvent(tenant, dayOf(unit.now), warning, unit.now));
}

/** Writes a change to a prefix, and the events of its decisions. */
export function changePrefix(unit: UnitOfWork, name: PrefixName, change: PrefixChange): void {
  unit.putPrefix(name, change);
  for (const decision of change.decisions) {
    const event = fraudEvent(name.tenant, name.prefix, decision);
    if (event !== undefined) unit.owe(event);
  }
}

/** Counts the outcome of a verification that has ended in this very act. */
export function countOutcome(unit: UnitOfWork, ended: Verification, ref: PrefixRef | undefined): void {
  const name = ended.tally === "none" ? undefined : ref?.name();
  if (ref === undefined || name === undefined) return;
  const change = recordOutcome(unit.prefix(name), ended, unit.now, ref.mode);
  if (change !== undefined) changePrefix(unit, name, change);
}

/** The prefix that an act on a verification may have to count at: while pending it may come to its end. */
export function countedPrefixOf(verification: Verification | undefined, phoneOf: PhoneOf): PrefixName | undefined {
  const isCounted = verification !== undefined && verification.state === "PENDING" && verification.tally !== "none";
  return isCounted ? phoneOf(verification).prefix?.name() : undefined;
}

// ---- a phone --------------------------------------------------------------------------------------------------------

/** Each part is read when a decision first looks at it, which most never do. So a view is good within its act only. */
export function viewPhone(unit: PhonesUnit, ref: PhoneRef): PhoneView {
  const { phones } = unit;
  const { indexes, knownUser, buckets, limits } = ref;
  let tats: readonly Instant[] | undefined;
  let history: PhoneHistory | undefined;
  return {
    get tats() {
      return (tats ??= latestTats(phones, indexes, { lane: knownUser ? lanes.known : lanes.first, buckets }));
    },
    get history() {
      if (history !== undefined) return history;
      history = emptyHistory;
      for (const index of indexes) {
        const found = phones.history(index);
        if (found !== undefined) history = mergeHistories(history, found);
      }
      return history;
    },
    get openAttempts() {
      let open = 0;
      for (const index of indexes) open += unit.openAttempts(index);
      return open;
    },
    limits: limits?.map((limit) => limit.limits),
    limitTats: limits?.map((limit) =>
      latestTats(phones, limit.indexes, { lane: lanes.named, buckets: limit.limits.length }),
    ),
  };
}

/** The latest of every bucket of a lane. */
function latestTats(
  phones: PhoneRows,
  indexes: readonly Uint8Array[],
  { lane, buckets }: { readonly lane: number; readonly buckets: number },
): Instant[] {
  const latest: Instant[] = [];
  for (let place = 0; place < buckets; place += 1) {
    let tatMs = 0;
    for (const index of indexes) tatMs = Math.max(tatMs, phones.tat(index, lane | place) ?? 0);
    latest.push(tatMs);
  }
  return latest;
}

/** Writes under the current master key, and deletes what was there under older ones. */
export function putPhone(
  { phones }: PhonesUnit,
  { indexes, knownUser, kid, limits = [] }: PhoneRef,
  { tats, history, limitTats }: Pick<Writes, "tats" | "history" | "limitTats">,
): void {
  if (tats !== undefined) putTats(phones, indexes, { lane: knownUser ? lanes.known : lanes.first, tats, kid });
  for (const [i, spent] of limitTats?.entries() ?? []) {
    const limit = limits[i];
    if (limit === undefined) throw new Error("a limit that is spent is kept somewhere");
    putTats(phones, limit.indexes, { lane: lanes.named, tats: spent, kid });
  }
  if (history === undefined) return;
  const [current = new Uint8Array(), ...older] = indexes;
  for (const index of older) phones.deleteHistory(index);
  phones.putHistory(current, history, kid);
}

function putTats(
  phones: PhoneRows,
  [current, ...older]: readonly Uint8Array[],
  { lane, tats, kid }: { readonly lane: number; readonly tats: readonly Instant[]; readonly kid: number },
): void {
  if (current === undefined) throw new Error("what is kept has an index");
  for (const [place, tatMs] of tats.entries()) {
    phones.putTat(current, lane | place, { tatMs, kid });
    for (const index of older) phones.deleteTat(index, lane | place);
  }
}

/** Fills every bucket of both lanes and forgets the history. */
export function resetPhone({ phones }: PhonesUnit, { indexes, buckets }: PhoneRef): void {
  for (const index of indexes) {
    phones.deleteHistory(index);
    for (let place = 0; place < buckets; place++) {
      phones.deleteTat(index, lanes.first | place);
      phones.deleteTat(index, lanes.known | place);
    }
  }
}
