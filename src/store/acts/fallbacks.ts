/**
 * The act on verifications that fall back: what is due is decided, and the message that comes of it is claimed.
 */
import type { CountKind } from "../../otp/verification/daily-cap.ts";
import { kindsOf, type Cap } from "../../otp/decisions/spending.ts";
import { latestCopy, type Verification } from "../../otp/verification/verification.ts";
import { apply, countedPrefixOf, viewPhone } from "../apply.ts";
import type { Engine } from "../engine.ts";
import { idText } from "../rows/values.ts";
import type { FallbackRules, Job, Store } from "../store.ts";
import type { DayUse, UnitOfWork } from "../unit-of-work.ts";
import { listed, refOf } from "./calls.ts";
import { claimedOf } from "./messages.ts";

export function fallbackActs(engine: Engine) {
  return {
    async claimFallbacks(max, rules) {
      const due = await engine.query<{ id: Uint8Array }>(engine.dueFallbacks, [engine.now(), max]);
      const { claimed, fault } = await claimedOf(due.map(({ id }) => claimFallback(engine, idText(id), rules)));
      if (fault !== undefined && claimed.length === 0) throw fault.reason;
      return claimed;
    },
  } satisfies Partial<Store>;
}

/** Decides one fallback, if it is still due; undefined unless a message is owed by it. */
function claimFallback(
  engine: Engine,
  verificationId: string,
  { phoneOf, numberOf, capsOf, decide }: FallbackRules,
): Promise<Job | undefined> {
  return engine.perform<Job | undefined>({
    verificationId,
    withMessages: true,
    phone: (unit) => refOf(unit.verification(verificationId), phoneOf),
    prefix: (unit) => countedPrefixOf(unit.verification(verificationId), phoneOf),
    number(unit) {
      const verification = unit.verification(verificationId);
      return verification && listed(verification.tenant, numberOf(verification));
    },
    daily(unit) {
      const verification = unit.verification(verificationId);
      return verification === undefined ? [] : usesOf(unit, verification, capsOf(verification));
    },
    run(unit) {
      const verification = unit.verification(verificationId);
      // Another worker may have been first, and a resend or the end may have come between.
      const dueMs = verification?.fallback?.dueMs ?? null;
      if (verification === undefined || dueMs === null || dueMs > unit.now) return undefined;
      const { tenant } = verification;
      const uses = usesOf(unit, verification, capsOf(verification));
      const phone = phoneOf(verification);
      const number = numberOf(verification);
      const name = verification.tally === "none" ? undefined : phone.prefix?.name();
      const message = unit.message(verificationId, latestCopy(verification));
      const decided = decide({
        now: unit.now,
        verification,
        message,
        phone: viewPhone(unit, phone),
        prefix: name && unit.prefix(name),
        verdict: number === undefined ? undefined : unit.verdict(tenant, number),
        days: new Map(uses.map(({ kind }) => [kind, unit.day(tenant, kind)])),
      });
      return apply(unit, { tenant, phone, verification, earlier: message }, decided);
    },
  });
}

/** The counts that its next message may be taken into, and those that the one before may leave. */
function usesOf(unit: UnitOfWork, verification: Verification, caps: readonly Cap[]): DayUse[] {
  const { id, tenant, region } = verification;
  const message = unit.message(id, latestCopy(verification));
  const maxes = new Map<CountKind, number | undefined>();
  // The day may turn until it is decided, so whatever day it is in.
  for (const kind of message === undefined ? [] : kindsOf(message, region)) maxes.set(kind, undefined);
  for (const { kind, max } of caps) maxes.set(kind, max);
  return [...maxes].map(([kind, max]) => ({ tenant, kind, max }));
}
