/**
 * The acts on messages: workers claim them, give them back, and settle them.
 */
import { claim, giveUp, type Message } from "../../otp/message/message.ts";
import { decideRelease, type SettleView } from "../../otp/decisions/settlement.ts";
import type { CountKind, Days } from "../../otp/verification/daily-cap.ts";
import { countAll, givenBack, kindsOf, takenForNextCall, type Bill } from "../../otp/decisions/spending.ts";
import type { ChargeOf } from "../../otp/operators/statistics.ts";
import { stateAt, type Verification } from "../../otp/verification/verification.ts";
import type { Decided } from "../../otp/decisions/writes.ts";
import { apply, countedPrefixOf, putDays, viewPhone } from "../apply.ts";
import type { Engine } from "../engine.ts";
import { idBytes, idText } from "../rows/values.ts";
import { toMessage, toOutbox, type MessageRow, type OutboxRow } from "../rows/message.ts";
import { outboxCountMax, type Job, type PhoneOf, type Store } from "../store.ts";
import type { DayUse, UnitOfWork } from "../unit-of-work.ts";
import { refOf } from "./calls.ts";
import { lateChange } from "./sums.ts";

/** Looks at the outbox for one claim. */
const claimLooksMax = 32;
const atDailyCap = "the daily cap on messages was reached";

const sql = {
  nextDue: {
    name: "next-due",
    text: `SELECT min(due) AS due FROM (
        SELECT min(due_ms) AS due FROM messages WHERE due_ms IS NOT NULL
        UNION ALL SELECT min(fallback_ms) FROM verifications WHERE fallback_ms IS NOT NULL
      ) AS soonest`,
  },
  /** What only waits for its provider's report is due at its deadline. */
  outbox: {
    name: "outbox",
    text: `SELECT (SELECT min(due_ms) FROM messages WHERE due_ms IS NOT NULL) AS due, (SELECT count(*) FROM (
        SELECT 1 FROM messages WHERE due_ms IS NOT NULL AND due_ms <> deadline_ms LIMIT $1
      ) AS owed) AS depth`,
  },
} as const;

export function messageActs(engine: Engine, chargeOf: ChargeOf) {
  return {
    async claimMessages(max, phoneOf, decideLate, billOf) {
      const jobs: Job[] = [];
      // Other workers look at the same messages at the same moment, and one of them is first with each.
      for (let looks = 0; looks < claimLooksMax && jobs.length < max; looks++) {
        const due = await engine.query<Pick<MessageRow, "verification_id" | "copy">>(engine.dueMessages, [
          engine.now(),
          max - jobs.length,
        ]);
        if (due.length === 0) break;
        const claims = due.map(({ verification_id, copy }) =>
          claimMessage(
            engine,
            { verificationId: idText(verification_id), copy },
            { phoneOf, decideLate, billOf, chargeOf },
          ),
        );
        const { claimed, fault } = await claimedOf(claims);
        jobs.push(...claimed);
        if (fault === undefined) continue;
        // The next look that claims nothing else tells it.
        if (jobs.length > 0) break;
        throw fault.reason;
      }
      return jobs;
    },

    async releaseMessages(jobs) {
      const released = jobs.map(({ message }) =>
        engine.perform({
          verificationId: message.verificationId,
          withMessages: true,
          daily: (unit) => usesOf(unit, message),
          run(unit) {
            const stored = unit.message(message.verificationId, message.copy);
            const verification = unit.verification(message.verificationId);
            if (stored === undefined || verification === undefined) return;
            const days = daysOf(unit, { message: stored, verification });
            const decided = decideRelease({ now: unit.now, message: stored, verification, ...days }, message);
            apply(unit, { tenant: verification.tenant, phone: undefined, verification, message: stored }, decided);
          },
        }),
      );
      await Promise.all(released);
      await engine.announceMessages();
    },

    settleMessage({ verificationId, copy }, phoneOf, decide) {
      return engine.perform({
        ...ofMessages(verificationId, phoneOf),
        daily: (unit) => usesOf(unit, { verificationId, copy }),
        run(unit) {
          const message = unit.message(verificationId, copy);
          const verification = unit.verification(verificationId);
          if (message === undefined || verification === undefined) return undefined;
          return settle(unit, { message, verification }, { phoneOf, decide, chargeOf });
        },
      });
    },

    async readMessages(id) {
      const bytes = idBytes(id);
      return bytes === undefined ? [] : (await engine.query<MessageRow>(engine.messagesOf, [bytes])).map(toMessage);
    },
    async nextDue() {
      const [row] = await engine.query<{ due: number | null }>(sql.nextDue, []);
      return row?.due ?? undefined;
    },
    async readOutbox() {
      const [row] = await engine.query<OutboxRow>(sql.outbox, [outboxCountMax]);
      return toOutbox(row, engine.now());
    },
  } satisfies Partial<Store>;
}

/** What came of claims: a job for each message that is claimed, and the first fault. */
export async function claimedOf(claims: readonly Promise<Job | undefined>[]) {
  const results = await Promise.allSettled(claims);
  const claimed = results.flatMap((result) => (result.status === "fulfilled" ? (result.value ?? []) : []));
  return { claimed, fault: results.find((result) => result.status === "rejected") };
}

/** How messages are claimed: see `Store.claimMessages`. */
interface ClaimRules {
  readonly phoneOf: PhoneOf;
  readonly decideLate: (view: SettleView) => Decided<unknown>;
  readonly billOf: (verification: Verification, message: Message) => Bill;
  readonly chargeOf: ChargeOf;
}

interface SettleRules<R> {
  readonly phoneOf: PhoneOf;
  readonly decide: (view: SettleView) => Decided<R>;
  readonly chargeOf: ChargeOf;
}

type MessageName = Pick<Message, "verificationId" | "copy">;

/** Claims one message, or ends it if it is late, over the cap or with its provider; undefined unless it is claimed. */
function claimMessage(
  engine: Engine,
  { verificationId, copy }: MessageName,
  { phoneOf, decideLate, billOf, chargeOf }: ClaimRules,
): Promise<Job | undefined> {
  return engine.perform<Job | undefined>({
    ...ofMessages(verificationId, phoneOf),
    daily: (unit) => usesOf(unit, { verificationId, copy }, billOf),
    run(unit) {
      const { now } = unit;
      const message = unit.message(verificationId, copy);
      const verification = unit.verification(verificationId);
      // Another worker may have had it in hand while this one waited for it.
      if (message === undefined || message.dueMs === null || message.dueMs > now) return undefined;
      if (verification === undefined) {
        unit.putMessage(giveUp(message));
        return undefined;
      }
      let late = message;
      // Its worker is gone, but its provider has reported to have it.
      const isTaken = message.delivery === "ACCEPTED";
      if (stateAt(verification, now) === "PENDING" && now < message.deadlineMs && !isTaken) {
        const { tenant } = verification;
        const bill = billOf(verification, message);
        const days: Days = new Map(bill.caps.map(({ kind }) => [kind, unit.day(tenant, kind)]));
        const counted = countAll(days, bill, now, takenForNextCall(message));
        putDays(unit, tenant, counted.writes);
        if (counted.counted) {
          const claimed = { ...claim(message, now), ...counted.taken };
          unit.putMessage(claimed);
          return { message: claimed, verification, now, reached: counted.reached };
        }
        late = { ...message, detail: counted.refusal.message ?? atDailyCap };
      }
      settle(unit, { message: late, verification }, { phoneOf, decide: decideLate, chargeOf });
      return undefined;
    },
  });
}

/** What an act on messages of a verification locks and loads. */
function ofMessages(verificationId: string, phoneOf: PhoneOf) {
  return {
    verificationId,
    withMessages: true,
    phone: (unit: UnitOfWork) => refOf(unit.verification(verificationId), phoneOf),
    prefix: (unit: UnitOfWork) => countedPrefixOf(unit.verification(verificationId), phoneOf),
  };
}

/** Decides what has become of a message. */
function settle<R>(
  unit: UnitOfWork,
  { message, verification }: Pick<SettleView, "message" | "verification">,
  { phoneOf, decide, chargeOf }: SettleRules<R>,
): R {
  const { now } = unit;
  const ref = phoneOf(verification);
  const view = { now, message, verification, phone: viewPhone(unit, ref), ...daysOf(unit, { message, verification }) };
  const decided = decide(view);
  const { message: messageNow = message, verification: verificationNow = verification } = decided.writes;
  const after = { message: messageNow, verification: verificationNow };
  if (verification.endMs !== null) {
    unit.sumLate(verification.endMs, lateChange({ message, verification }, after, chargeOf, now));
  }
  return apply(unit, { tenant: verification.tenant, phone: ref, verification, message }, decided);
}

/** The counts of today that a message is in, if any. */
function daysOf(
  unit: UnitOfWork,
  { message, verification }: Pick<SettleView, "message" | "verification">,
): Pick<SettleView, "days"> {
  const back = givenBack(message, verification.region, unit.now);
  const days = new Map([...back.keys()].map((kind) => [kind, unit.day(verification.tenant, kind)] as const));
  return days.size === 0 ? {} : { days };
}

/** The counts that a message may be taken into, and those that it may leave. */
function usesOf(unit: UnitOfWork, name: MessageName, billOf?: ClaimRules["billOf"]): DayUse[] {
  const [verification, message] = [
    unit.verification(name.verificationId),
    unit.message(name.verificationId, name.copy),
  ];
  if (verification === undefined || message === undefined) return [];
  const { tenant, region } = verification;
  const maxes = new Map<CountKind, number | undefined>();
  // The day may turn until it is decided, so whatever day it is in.
  for (const kind of kindsOf(message, region)) maxes.set(kind, undefined);
  for (const { kind, max } of billOf?.(verification, message).caps ?? []) maxes.set(kind, max);
  return [...maxes].map(([kind, max]) => ({ tenant, kind, max }));
}
