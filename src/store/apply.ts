/**
 * The one place where a decision becomes changes, for every database.
 */
import { eventsOf, fraudEvent, spendEvent, type Loaded } from "../otp/decisions/event.ts";
import { dayOf } from "../otp/verification/policy.ts";
import { recordOutcome, type PrefixChange } from "../otp/limits/pumping-guard.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Decided, Writes } from "../otp/decisions/writes.ts";
import { putPhone } from "./phone-rows.ts";
import type { PhoneOf, PhoneRef, PrefixName, PrefixRef } from "./store.ts";
import type { UnitOfWork } from "./unit-of-work.ts";

/** What was decided about. */
interface Subject extends Omit<Loaded, "now"> {
  readonly tenant: string;
  readonly phone: PhoneRef | undefined;
}

/** Writes what was decided, and gives the result. */
export function apply<R>(
  unit: UnitOfWork,
  { tenant, phone: ref, verification: before, message }: Subject,
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
    for (const event of eventsOf(writes, { verification: before, message, now: unit.now })) unit.owe(event);
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
