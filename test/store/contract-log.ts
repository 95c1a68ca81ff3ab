/**
 * The store's contract: the log of a verification. It is written with what it tells of, by whatever act, and is the same
 * on every database.
 */
import { describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { decideGiveUp, decideReport, decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { logOf, type LogText } from "../support/data/examples.ts";
import { ann, ben, createActs, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";
import { added, claimAll, endpointOf, recordedAsTaken } from "./endpoints.ts";

const second = 1_000;

function settle(store: Store, acts: Acts, { message }: Job, outcome: SendOutcome, provider: string) {
  return store.settleMessage(message, acts.phoneOf, (view) =>
    decideSettle(view, { outcome, provider, providers: 2, claimed: message }, acts.policy),
  );
}

function report(store: Store, acts: Acts, { message }: Job, delivery: "DELIVERED" | "UNDELIVERED", provider: string) {
  const facts = { delivery, providerMessageId: undefined, detail: "word", provider, providersOf: () => ["one", "two"] };
  return store.settleMessage(message, acts.phoneOf, (view) => decideReport(view, facts));
}

export function logCases(withStore: WithStore): void {
  async function expectLog(store: Store, { tenant, id }: Verification, ...entries: LogText[]) {
    expect((await store.readVerification(tenant, id))?.log).toEqual(logOf(...entries));
  }

  describe("a verification's log", () => {
    test(
      "tells of the send, each call and report, resends, guesses and the end, also of what came after it",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        const { verification } = job;
        system.advance(second);
        await settle(store, acts, job, { kind: "refused", cause: "balance", detail: "no money" }, "one");
        const [again] = await acts.claim();
        if (again === undefined) throw new Error("it does not go on");
        system.advance(second);
        await settle(store, acts, again, { kind: "accepted" }, "two");
        // Noted once more, as after a commit whose answer was lost.
        await settle(store, acts, again, { kind: "accepted" }, "two");
        expect(await acts.guess(verification, acts.wrongCode(verification))).toBe("CODE_MISMATCH");
        system.advance(30 * second);
        const resent = await acts.resend(verification);
        expect(await acts.guess(verification, "no code")).toBe("CODE_MALFORMED");
        system.advance(second);
        expect(await acts.guess(verification, acts.rightCode(verification))).toBe("verified");
        system.advance(second);
        await settle(store, acts, resent, { kind: "ambiguous", detail: "lost" }, "one");
        await report(store, acts, resent, "DELIVERED", "one");
        await report(store, acts, resent, "DELIVERED", "one");
        await expectLog(
          store,
          verification,
          [0, "send", "sms"],
          [second, "call", "balance", "one"],
          [2 * second, "call", "accepted", "two"],
          [2 * second, "guess", "wrong"],
          [32 * second, "resend", "sms", null, 1],
          [33 * second, "guess", "right", null, 1],
          [33 * second, "end", "VERIFIED", null, 1],
          [34 * second, "call", "ambiguous", "one", 1],
          [34 * second, "report", "DELIVERED", "one", 1],
        );
      }),
    );

    test(
      "tells how it came to any other end, and of a message that was given up",
      withStore(async ({ store, acts, system }) => {
        const opened = await Promise.all(["canceled", "locked", "failed", "swept", "late"].map(() => acts.send(ben)));
        const [canceled, locked, failed, swept, late] = opened as [Job, Job, Job, Job, Job];
        await acts.cancel(canceled.verification);
        for (let i = 0; i < 5; i++) await acts.guess(locked.verification, acts.wrongCode(locked.verification));
        await store.settleMessage(failed.message, acts.phoneOf, (view) =>
          decideSettle(
            view,
            {
              outcome: { kind: "refused", cause: "recipient", detail: "none" },
              provider: "one",
              providers: 1,
              claimed: failed.message,
            },
            acts.policy,
          ),
        );
        await store.releaseMessages([late]);
        await store.settleMessage(late.message, acts.phoneOf, (view) => decideGiveUp(view, acts.policy));
        system.advance(acts.policy.ttlMs + second);
        await store.sweep(100, acts.policy.retentionMs, acts.phoneOf);
        const begun: LogText = [0, "send", "sms"];
        await expectLog(store, canceled.verification, begun, [0, "end", "CANCELED"]);
        const guesses = Array.from({ length: 5 }, (): LogText => [0, "guess", "wrong"]);
        await expectLog(store, locked.verification, begun, ...guesses, [0, "end", "LOCKED"]);
        await expectLog(store, failed.verification, begun, [0, "call", "recipient", "one"], [0, "end", "FAILED"]);
        await expectLog(store, swept.verification, begun, [acts.policy.ttlMs, "end", "EXPIRED"]);
        await expectLog(store, late.verification, begun, [0, "call", "given-up"], [0, "end", "FAILED"]);
      }),
    );

    test(
      "tells which events were taken, and which were given up, and goes on beside its acts",
      withStore(async ({ store, system, acts: { keys, policy } }) => {
        await added(store, endpointOf("we_1"));
        const acts = createActs(store, system, keys, policy, true);
        const { verification } = await acts.send(ann);
        await recordedAsTaken(store, await claimAll(store));
        expect(await acts.guess(verification, acts.rightCode(verification))).toBe("verified");
        const [job] = await claimAll(store);
        if (job === undefined) throw new Error("nothing waits");
        system.advance(second);
        await store.events.recordTry(job, (endpoint) => ({ retry: null, isTaken: false, endpoint }));
        await expectLog(
          store,
          verification,
          [0, "send", "sms"],
          [0, "posted", "verification.created"],
          [0, "guess", "right"],
          [0, "end", "VERIFIED"],
          [second, "dropped", "verification.verified"],
        );
      }),
    );

    test(
      "that has 32 entries keeps how it began and what came last, and counts the rest",
      withStore(async ({ store, acts, system }) => {
        let [job] = [await acts.send(ann)];
        const { verification } = job;
        for (let i = 1; i <= 40; i++) {
          await settle(store, acts, job, { kind: "throttled", retryAfterMs: 5 * second, detail: "wait" }, "one");
          system.advance(5 * second);
          job = (await acts.claim())[0] ?? job;
        }
        const { entries, omitted } = (await acts.read(verification)).log;
        expect([entries.length, omitted]).toEqual([32, 9]);
        expect(entries.slice(0, 2)).toEqual(logOf([0, "send", "sms"], [0, "call", "throttled", "one"]).entries);
        expect(entries.map(({ offsetMs }) => offsetMs / second)).toEqual([
          0,
          ...Array.from({ length: 15 }, (_, i) => 5 * i),
          ...Array.from({ length: 16 }, (_, i) => 5 * (24 + i)),
        ]);
      }),
    );

    test(
      "is what is durable, and what others see",
      withStore(async ({ acts, system, beside, reopen }) => {
        const { verification } = await acts.send(ann);
        const other = createActs(await beside(), system, acts.keys);
        await acts.guess(verification, acts.wrongCode(verification));
        await other.guess(verification, acts.wrongCode(verification));
        await acts.guess(verification, acts.wrongCode(verification));
        const entries = Array.from({ length: 3 }, (): LogText => [0, "guess", "wrong"]);
        await expectLog(await reopen(), verification, [0, "send", "sms"], ...entries);
      }),
    );

    test.each(["refuses it", "is not asked any more"])(
      "that is full of waits still tells that a provider had the message in vain, where the next one %s",
      (end) =>
        withStore(async ({ store, acts, system }) => {
          const slow: SendOutcome = { kind: "throttled", detail: "slow" };
          const claimed = async (): Promise<Job> => {
            system.advance(second);
            const [next] = await acts.claim();
            if (next === undefined) throw new Error("it does not go on");
            return next;
          };
          let job = await acts.send(ann);
          for (let i = 0; i < 16; i++) {
            await settle(store, acts, job, slow, i % 2 === 0 ? "one" : "two");
            job = await claimed();
          }
          await settle(store, acts, job, { kind: "accepted" }, "one");
          await report(store, acts, job, "UNDELIVERED", "one");
          for (let i = 0; i < 30; i++) await settle(store, acts, await claimed(), slow, "two");
          if (end === "refuses it") {
            await settle(store, acts, await claimed(), { kind: "refused", cause: "recipient", detail: "no" }, "two");
          } else {
            await acts.cancel(job.verification);
            system.advance(second);
            await acts.claim();
          }
          const { delivery, log } = await acts.read(job.verification);
          expect([delivery, log.entries.length, log.omitted > 0]).toEqual(["UNDELIVERED", 32, true]);
        })(),
    );
  });
}
