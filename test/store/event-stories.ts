/** What may happen to a verification, and the events that are told of it. */
import { deepEqual } from "node:assert/strict";
import { leaseMs, type Delivery, type SendOutcome } from "../../src/otp/message/message.ts";
import { decideReport, decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Job } from "../../src/store/store.ts";
import { testPolicy } from "./acts.ts";
import type { StoreFixture } from "./contract.ts";

type Heard = Pick<StoreFixture, "store" | "system" | "acts"> & {
  readonly job: Job;
  /** Has the endpoint take what waits: what is told again after that is told twice. */
  readonly take: () => Promise<void>;
};

export function settle({ store, acts, job }: Omit<Heard, "take">, outcome: SendOutcome, provider = "one") {
  return store.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { outcome, provider, providers: 2, claimed: job.message }, acts.policy),
  );
}
export function report(
  { store, acts, job }: Omit<Heard, "take">,
  delivery: "ACCEPTED" | "DELIVERED" | "UNDELIVERED",
  provider = "one",
) {
  const facts = { delivery, providerMessageId: undefined, detail: "word", provider, providersOf: () => ["one", "two"] };
  return store.settleMessage(job.message, acts.phoneOf, (view) => decideReport(view, facts));
}
/** It is in hand for the next provider. */
async function claimed(heard: Heard): Promise<Heard> {
  const [job] = await heard.acts.claim();
  if (job === undefined) throw new Error("it does not go on");
  return { ...heard, job };
}
/** This is how far its latest message got, which GetOtp says too. */
async function reached({ store, job: { verification } }: Heard, delivery: Delivery) {
  const message = (await store.readMessages(verification.id)).at(-1);
  const told = await store.readVerification(verification.tenant, verification.id);
  deepEqual([message?.delivery, message?.dueMs, told?.delivery], [delivery, null, delivery]);
}
/** The next provider is tried, and answers. */
async function goOn(heard: Heard, outcome: SendOutcome) {
  await settle(await claimed(heard), outcome, "two");
}
/** Whoever had it in hand is gone, and nobody takes it over. */
async function left({ acts, system }: Heard) {
  system.advance(leaseMs);
  deepEqual(await acts.claim(), []);
}
/** The first provider's acceptance is noted again once the next one has the message, since its first commit was in doubt. */
async function notedOnceMore(heard: Heard): Promise<Heard> {
  await settle(heard, accepted);
  await report(heard, "UNDELIVERED");
  const again = await claimed(heard);
  await settle(heard, accepted);
  return again;
}
const accepted: SendOutcome = { kind: "accepted", providerMessageId: "m1" };
const refused: SendOutcome = { kind: "refused", cause: "content", detail: "no" };

type Story = [string, string[], (heard: Heard) => Promise<unknown>];

/** What happens after a send, and what is told of it, in order. */
export const stories: Story[] = [
  ["nothing more happens", ["created"], async () => {}],
  ["a provider takes it", ["created", "accepted"], (heard) => settle(heard, { kind: "accepted" })],
  [
    "an acceptance is noted twice",
    ["created", "accepted"],
    async (heard) => {
      await settle(heard, { kind: "accepted" });
      await heard.take();
      await settle(heard, { kind: "accepted" });
    },
  ],
  [
    "a provider reports to have it, and whoever asked that is gone",
    ["created", "accepted"],
    async (heard) => {
      await report(heard, "ACCEPTED");
      await left(heard);
      await reached(heard, "ACCEPTED");
      const { log } = await heard.acts.read(heard.job.verification);
      deepEqual(log.entries.at(-1)?.outcome, "ACCEPTED");
      // Its answer comes after all.
      await settle(heard, refused);
      await settle(heard, accepted);
      await reached(heard, "ACCEPTED");
    },
  ],
  [
    "a provider reports to have it, whoever asked that is gone, and it goes on as it was in vain",
    ["created", "accepted", "accepted"],
    async (heard) => {
      await report(heard, "ACCEPTED");
      await left(heard);
      await report(heard, "UNDELIVERED");
      const next = await claimed(heard);
      await report(next, "ACCEPTED", "two");
      await left(next);
      await reached(next, "ACCEPTED");
    },
  ],
  [
    "an acceptance is noted once more behind its report, and the next provider takes it",
    ["created", "accepted", "accepted"],
    async (heard) => {
      await settle(heard, { kind: "accepted" });
      await report(heard, "UNDELIVERED");
      heard.system.advance(5);
      await settle(heard, { kind: "accepted" });
      await goOn(heard, { kind: "accepted" });
    },
  ],
  [
    "an acceptance is noted once more while the next provider has it, which takes it too",
    ["created", "accepted", "accepted"],
    async (heard) => settle(await notedOnceMore(heard), accepted, "two"),
  ],
  [
    "an acceptance is noted once more while the next provider has it, which refuses it",
    ["created", "accepted", "undelivered"],
    async (heard) => settle(await notedOnceMore(heard), refused, "two"),
  ],
  [
    "an acceptance is noted once more while the next provider has it, which has it wait and takes it then",
    ["created", "accepted", "accepted"],
    async (heard) => {
      await settle(await notedOnceMore(heard), { kind: "throttled", detail: "wait" }, "two");
      heard.system.advance(1_000);
      await goOn(heard, accepted);
    },
  ],
  [
    "its report comes before its answer, less than a lease before its deadline",
    ["created", "accepted", "accepted", "delivered"],
    async (heard) => {
      await settle(heard, accepted);
      heard.system.advance(520_000);
      const resent = { ...heard, job: await heard.acts.resend(heard.job.verification) };
      await report(resent, "UNDELIVERED");
      await settle(resent, accepted);
      await goOn(resent, accepted);
      await reached(heard, "ACCEPTED");
      await report(resent, "DELIVERED", "two");
    },
  ],
  ...(["ambiguous", "accepted"] as const).map((kind): Story => [
    `it is reported undelivered and canceled before its answer, which is ${kind}`,
    ["created", "canceled", "undelivered"],
    async (heard) => {
      await report(heard, "UNDELIVERED");
      await heard.acts.cancel(heard.job.verification);
      await settle(heard, { kind, detail: "no answer" });
      await reached(heard, "UNDELIVERED");
    },
  ]),
  [
    "nobody answers, one is reported to have it, and its deadline comes",
    ["created", "accepted"],
    async (heard) => {
      await settle(heard, { kind: "ambiguous", detail: "no answer" });
      await goOn(heard, { kind: "ambiguous", detail: "no answer" });
      await report(heard, "ACCEPTED", "two");
      heard.system.advance(540_000);
      await heard.acts.claim();
      await reached(heard, "ACCEPTED");
    },
  ],
  [
    "reports come twice, the first before the answer",
    ["created", "delivered"],
    async (heard) => {
      await report(heard, "DELIVERED");
      await heard.take();
      await settle(heard, { kind: "accepted" });
      await report(heard, "DELIVERED");
      await report(heard, "UNDELIVERED");
    },
  ],
  [
    "it fails over, and arrives",
    ["created", "accepted", "accepted", "delivered"],
    async (heard) => {
      await settle(heard, { kind: "accepted" });
      await report(heard, "UNDELIVERED");
      await goOn(heard, { kind: "accepted" });
      await report(heard, "DELIVERED", "two");
    },
  ],
  [
    "it fails over in vain",
    ["created", "accepted", "accepted", "undelivered"],
    async (heard) => {
      await settle(heard, { kind: "accepted" });
      await report(heard, "UNDELIVERED");
      await goOn(heard, { kind: "accepted" });
      await report(heard, "UNDELIVERED", "two");
    },
  ],
  ...(["m1", undefined] as const).flatMap((providerMessageId): Story[] => {
    const named = providerMessageId === undefined ? "without a name" : "by a name";
    const inVain = async (heard: Heard) => {
      await settle(heard, { kind: "accepted", ...(providerMessageId && { providerMessageId }) });
      await report(heard, "UNDELIVERED");
    };
    return [
      [
        `it was taken ${named}, fails over, and the next provider refuses it`,
        ["created", "accepted", "undelivered"],
        async (heard) => {
          await inVain(heard);
          await goOn(heard, refused);
          await reached(heard, "UNDELIVERED");
        },
      ],
      [
        `it was taken ${named}, fails over, and its time is over first`,
        ["created", "accepted", "undelivered"],
        async (heard) => {
          await inVain(heard);
          heard.system.advance(540_000);
          await Promise.all([heard.acts.claim(), heard.acts.claim()]);
          await report(heard, "UNDELIVERED");
          await reached(heard, "UNDELIVERED");
        },
      ],
      [
        `it was taken ${named}, fails over, and it is canceled while the next provider has it wait`,
        ["created", "accepted", "canceled", "undelivered"],
        async (heard) => {
          await inVain(heard);
          const next = await claimed(heard);
          await heard.acts.cancel(heard.job.verification);
          for (let i = 0; i < 2; i++) await settle(next, { kind: "throttled", detail: "wait" }, "two");
          await reached(heard, "UNDELIVERED");
        },
      ],
      [
        `it was taken ${named}, fails over, and nobody knows whether the next provider has it`,
        ["created", "accepted", "canceled"],
        async (heard) => {
          await inVain(heard);
          await claimed(heard);
          heard.system.advance(30_000);
          await heard.acts.cancel(heard.job.verification);
          await heard.acts.claim();
          await reached(heard, "EXPIRED");
        },
      ],
    ];
  }),
  [
    "every provider refuses it",
    ["created", "failed", "undelivered"],
    async (heard) => {
      await settle(heard, refused);
      await goOn(heard, refused);
    },
  ],
  [
    "the right code comes, twice",
    ["created", "verified"],
    async ({ acts, take, job: { verification } }) => {
      const code = acts.rightCode(verification);
      await acts.guess(verification, acts.wrongCode(verification));
      await acts.guess(verification, code);
      await take();
      await acts.guess(verification, code);
    },
  ],
  [
    "it is locked, and then asked about",
    ["created", "locked"],
    async ({ acts, take, job: { verification } }) => {
      const wrong = acts.wrongCode(verification);
      for (let i = 0; i < 5; i++) await acts.guess(verification, wrong);
      await take();
      await acts.guess(verification, wrong);
    },
  ],
  [
    "it is canceled, twice",
    ["created", "canceled"],
    async ({ acts, take, job: { verification } }) => {
      await acts.cancel(verification);
      await take();
      await acts.cancel(verification);
    },
  ],
  [
    "a guess comes too late, and a sweep after it",
    ["created", "expired"],
    async ({ acts, store, system, take, job: { verification } }) => {
      const code = acts.rightCode(verification);
      system.advance(600_000);
      await acts.guess(verification, code);
      await take();
      await store.sweep(100, testPolicy.retentionMs, acts.phoneOf);
    },
  ],
  [
    "sweeps of two processes find it",
    ["created", "expired"],
    async ({ acts, store, system }) => {
      system.advance(600_000);
      await Promise.all([1, 2, 3].map(() => store.sweep(100, testPolicy.retentionMs, acts.phoneOf)));
    },
  ],
  [
    "a sweep finds it that has no keys",
    ["created", "expired"],
    async ({ store, system }) => {
      system.advance(600_000);
      await store.sweep(100, testPolicy.retentionMs);
    },
  ],
  [
    "nobody sends it in time",
    ["created", "failed"],
    async ({ acts, store, system, job }) => {
      await store.releaseMessages([job]);
      system.advance(540_000);
      await acts.claim();
    },
  ],
  [
    "it is resent",
    ["created", "accepted", "accepted"],
    async (heard) => {
      await settle(heard, { kind: "accepted" });
      heard.system.advance(30_000);
      const job = await heard.acts.resend(heard.job.verification);
      await settle({ ...heard, job }, { kind: "accepted" });
    },
  ],
  [
    "a resend never leaves, and neither does the next one, which has its copy",
    ["created", "accepted", "undelivered", "undelivered"],
    async (heard) => {
      await settle(heard, { kind: "accepted" });
      heard.system.advance(30_000);
      for (let i = 0; i < 2; i += 1) {
        const job = await heard.acts.resend(heard.job.verification);
        await settle({ ...heard, job }, refused);
        await goOn(heard, refused);
        heard.system.advance(1);
      }
    },
  ],
];
