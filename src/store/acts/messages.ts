/**
 * The acts on messages: workers claim them, give them back, and settle them.
 */
import { countMessage, dailyOf, isCountedToday, isNextCallCounted, type Counting } from "../../otp/daily-cap.ts";
import { claim, giveUp, isInHand, unclaim, type Message } from "../../otp/message.ts";
import type { SettleView } from "../../otp/settlement.ts";
import { stateAt } from "../../otp/verification.ts";
import type { Decided } from "../../otp/writes.ts";
import { apply, countedPrefixOf, putDay } from "../apply.ts";
import type { Engine } from "../engine.ts";
import { viewPhone } from "../phone-rows.ts";
import { idBytes, idText } from "../rows/values.ts";
import { toMessage, toOutbox, type MessageRow, type OutboxRow } from "../rows/message.ts";
import { outboxCountMax, type Job, type PhoneOf, type Store } from "../store.ts";
import type { UnitOfWork } from "../unit-of-work.ts";
import { refOf } from "./calls.ts";

/** Looks at the outbox for one claim. */
const claimLooksMax = 32;
const atDailyCap = "the daily cap on messages was reached";

const sql = {
  nextDue: { name: "next-due", text: `SELECT min(due_ms) AS due FROM messages WHERE due_ms IS NOT NULL` },
  /** What only waits for its provider's report is due at its deadline. */
  outbox: {
    name: "outbox",
    text: `SELECT (SELECT min(due_ms) FROM messages WHERE due_ms IS NOT NULL) AS due, (SELECT count(*) FROM (
        SELECT 1 FROM messages WHERE due_ms IS NOT NULL AND due_ms < deadline_ms LIMIT $1
      ) AS owed) AS depth`,
  },
} as const;

export function messageActs(engine: Engine) {
  return {
    async claimMessages(max, phoneOf, decideLate, dailyMaxOf) {
      const jobs: Job[] = [];
      // Other workers look at the same messages at the same moment, and one of them is first with each.
      for (let looks = 0; looks < claimLooksMax && jobs.length < max; looks++) {
        const due = await engine.query<Pick<MessageRow, "verification_id" | "copy">>(engine.dueMessages, [
          engine.now(),
          max - jobs.length,
        ]);
        if (due.length === 0) break;
        const claims = due.map(({ verification_id, copy }) =>
          claimMessage(engine, { verificationId: idText(verification_id), copy }, { phoneOf, decideLate, dailyMaxOf }),
        );
        const claimed = await Promise.all(claims);
        jobs.push(...claimed.filter((job) => job !== undefined));
      }
      return jobs;
    },

    async releaseMessages(jobs) {
      const released = jobs.map(({ message }) =>
        engine.perform({
          verificationId: message.verificationId,
          withMessages: true,
          run(unit) {
            const stored = unit.message(message.verificationId, message.copy);
            // Its lease may have ended, and another worker may have sent it.
            if (stored !== undefined && isInHand(message, stored)) unit.putMessage(unclaim(stored, unit.now));
          },
        }),
      );
      await Promise.all(released);
      await engine.announceMessages();
    },

    settleMessage({ verificationId, copy }, phoneOf, decide) {
      return engine.perform({
        ...ofMessages(verificationId, phoneOf),
        daily(unit) {
          // It may leave the count of its day.
          const countedDay = unit.message(verificationId, copy)?.countedDay ?? null;
          const tenant = countedDay === null ? undefined : unit.verification(verificationId)?.tenant;
          return tenant === undefined ? undefined : { tenant, max: undefined };
        },
        run(unit) {
          const message = unit.message(verificationId, copy);
          const verification = unit.verification(verificationId);
          if (message === undefined || verification === undefined) return undefined;
          return settle(unit, { message, verification }, phoneOf, decide);
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

/** How messages are claimed: see `Store.claimMessages`. */
interface ClaimRules {
  readonly phoneOf: PhoneOf;
  readonly decideLate: (view: SettleView) => Decided<unknown>;
  readonly dailyMaxOf: (tenant: string) => number | undefined;
}

type MessageName = Pick<Message, "verificationId" | "copy">;

/** Claims one message, or ends it if it is late or over the cap; undefined unless it is claimed. */
function claimMessage(
  engine: Engine,
  { verificationId, copy }: MessageName,
  { phoneOf, decideLate, dailyMaxOf }: ClaimRules,
): Promise<Job | undefined> {
  return engine.perform<Job | undefined>({
    ...ofMessages(verificationId, phoneOf),
    daily(unit) {
      const tenant = unit.verification(verificationId)?.tenant;
      return tenant === undefined ? undefined : { tenant, max: dailyMaxOf(tenant) };
    },
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
      if (stateAt(verification, now) === "PENDING" && now < message.deadlineMs) {
        const { tenant } = verification;
        const cap = dailyMaxOf(tenant);
        const counting = countingFor(unit, message, tenant, cap);
        putDay(unit, tenant, dailyOf(counting, cap));
        if (counting.counted) {
          const claimed = { ...claim(message, now), countedDay: counting.day };
          unit.putMessage(claimed);
          return { message: claimed, verification, now, share: counting.share };
        }
        late = { ...message, detail: atDailyCap };
      }
      settle(unit, { message: late, verification }, phoneOf, decideLate);
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
  phoneOf: PhoneOf,
  decide: (view: SettleView) => Decided<R>,
): R {
  const { now } = unit;
  const ref = phoneOf(verification);
  const daily = isCountedToday(message, now) ? unit.day(verification.tenant) : undefined;
  const decided = decide({ now, message, verification, phone: viewPhone(unit, ref), daily });
  return apply(unit, { tenant: verification.tenant, phone: ref, verification, message }, decided);
}

/** Counts a message's next call under the daily cap, unless it is counted already. */
function countingFor(unit: UnitOfWork, message: Message, tenant: string, cap: number | undefined): Counting {
  if (isNextCallCounted(message, unit.now)) return { counted: true, day: message.countedDay };
  return countMessage(cap === undefined ? undefined : unit.day(tenant), cap, unit.now);
}
