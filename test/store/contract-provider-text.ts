/**
 * The store's contract: a provider's words. Whatever a provider calls a message, and however it explains itself, a worker
 * notes its answer at the first try: what is not noted is sent again.
 */
import { describe, expect, test } from "vitest";
import { createWorker } from "../../src/delivery/worker.ts";
import type { Message, SendOutcome } from "../../src/otp/message/message.ts";
import { referenceOf } from "../../src/otp/message/provider-text.ts";
import { createTakeReport } from "../../src/service/reports.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { ofOneMind } from "../support/service/tenants.ts";
import { createPhoneNetwork } from "../support/service/world.ts";
import { ann, type Acts } from "./acts.ts";
import type { StoreFixture, WithStore } from "./contract.ts";

/** What was said, and what is kept of it. */
const words: readonly (readonly [what: string, said: unknown, name: string | null, reason: string | null])[] = [
  ["NULs", "a\0b\0", "a\uFFFDb\uFFFD", "a\uFFFDb\uFFFD"],
  ["controls", "a\u001b[31m\r\nb\u0085", "a\uFFFD[31m\uFFFD\uFFFDb\uFFFD", "a\uFFFD[31m\uFFFD\uFFFDb\uFFFD"],
  ["marks that turn a line around", "a\u202eb\u2066\u2028", "a\uFFFDb\uFFFD\uFFFD", "a\uFFFDb\uFFFD\uFFFD"],
  ["halves of characters", "\udc00a\ud800", "\uFFFDa\uFFFD", "\uFFFDa\uFFFD"],
  ["a megabyte", "x".repeat(1 << 20), "x".repeat(128), "x".repeat(200)],
  ["a megabyte of NULs", "\0".repeat(1 << 20), "\uFFFD".repeat(85), "\uFFFD".repeat(133)],
  ["a megabyte of emoji", "😀".repeat(1 << 18), "😀".repeat(64), "😀".repeat(100)],
  ["nothing", "", null, ""],
  ["a number", 7, null, null],
  ["null", null, null, null],
];

async function deliver({ store, acts, system }: StoreFixture, job: Job, outcome: unknown) {
  const network = createPhoneNetwork();
  network.script.push(outcome as SendOutcome);
  const faults: unknown[] = [];
  const worker = createWorker({
    store,
    system,
    keys: acts.keys,
    tenantOf: ofOneMind(acts.policy),
    channelsOn: ["sms"],
    refreshTenants: async () => {},
    providersOf: () => [network],
    phoneOf: acts.phoneOf,
    onCall: () => {},
    onSpendWarnings: () => {},
    onFault: (error) => void faults.push(error),
  });
  await worker.deliver(job, 0);
  await worker.stop(30_000);
  expect(faults).toEqual([]);
  expect(network.received).toHaveLength(1);
}

function note(store: Store, acts: Acts, { id }: Verification, said: unknown) {
  const noteReport = createTakeReport({
    store,
    keys: acts.keys,
    providersOf: () => ["test"],
    phoneOf: acts.phoneOf,
    nudge: () => {},
  });
  return noteReport("test", {
    reference: referenceOf(acts.keys.current, id, 0),
    providerMessageId: said as string,
    delivery: "UNDELIVERED",
    detail: said as string,
  });
}

const messageOf = async (store: Store, { id }: Verification) => (await store.readMessages(id))[0] as Message;

export function providerTextCases(withStore: WithStore): void {
  describe.each(words)("a provider that says %s", (_, said, name, reason) => {
    test(
      "when it takes a message has it noted, and the text goes out once",
      withStore(async (fixture) => {
        const { store, acts } = fixture;
        const job = await acts.send(ann);
        await deliver(fixture, job, { kind: "accepted", providerMessageId: said });
        expect(await messageOf(store, job.verification)).toMatchObject({
          delivery: "ACCEPTED",
          dueMs: null,
          providerMessageId: name,
        });
        expect(await store.nextDue()).toBeUndefined();
      }),
    );

    test(
      "when it refuses one has it noted",
      withStore(async (fixture) => {
        const { store, acts } = fixture;
        const job = await acts.send(ann);
        await deliver(fixture, job, { kind: "refused", cause: "content", detail: said });
        expect(await messageOf(store, job.verification)).toMatchObject({ delivery: "REJECTED", detail: reason });
        expect(await store.nextDue()).toBeUndefined();
      }),
    );

    test(
      "when it asks to wait has that noted, and the message is put off",
      withStore(async (fixture) => {
        const { store, acts, system } = fixture;
        const job = await acts.send(ann);
        await deliver(fixture, job, { kind: "throttled", retryAfterMs: 7_000, detail: said });
        expect(await messageOf(store, job.verification)).toMatchObject({
          delivery: "QUEUED",
          calls: 0,
          dueMs: system.now() + 7_000,
          detail: reason,
        });
      }),
    );

    test(
      "is known again by the name that it gave",
      withStore(async (fixture) => {
        const { store, acts } = fixture;
        const job = await acts.send(ann);
        await deliver(fixture, job, { kind: "accepted", providerMessageId: said });
        await note(store, acts, job.verification, said);
        expect(await messageOf(store, job.verification)).toMatchObject({
          delivery: "UNDELIVERED",
          providerMessageId: name,
          detail: reason,
        });
      }),
    );
  });
}
