/**
 * What a call is answered whose message another instance had in hand when the wait was over: the acts and two workers on
 * real SQLite. The call's own worker cannot claim the second try, so the other one does.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { decideFallback } from "../../src/otp/decisions/falling-back.ts";
import { Secret } from "../../src/otp/keys/secret.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Caller } from "../../src/service/calls.ts";
import { createVerifications, type Verifications } from "../../src/service/verifications.ts";
import type { Store } from "../../src/store/store.ts";
import { createCarriage, placesMax, type Carriage } from "../delivery/worker-setup.ts";
import { ann, ben } from "../store/acts.ts";
import { ofOneMind } from "../support/service/tenants.ts";

const unavailable: SendOutcome = { kind: "unavailable", detail: "connection refused" };
const sendWaitMs = 2_000;

let c: Carriage;
let service: Verifications;
/** Runs once the messages were read, before the look goes on. */
let afterMessages: () => Promise<unknown>;
beforeEach(async () => {
  c = await createCarriage(1);
  const other = await c.another([c.networks[1]]);
  other.start();
  afterMessages = async () => {};
  const readMessages: Store["readMessages"] = async (id) => {
    const messages = await c.store.readMessages(id);
    await afterMessages();
    return messages;
  };
  service = createVerifications({
    store: new Proxy(c.store, {
      get: (store, name) => (name === "readMessages" ? readMessages : (Reflect.get(store, name) as unknown)),
    }),
    system: c.system,
    keys: c.acts.keys,
    tenantOf: ofOneMind(c.acts.policy),
    deliver: c.worker.deliver,
    sendWaitMs,
    channelsOn: ["sms", "voice"],
    issuer: "otpd",
    onSpendWarnings: () => {},
  });
});
afterEach(() => c.end());

const caller: Caller = { tenant: "default", keyId: "key", idempotencyKey: "k1", isPublishable: false };

/** A first call fails here, and the second one is the other instance's. */
function failHere(then: SendOutcome): void {
  c.networks[0].script.push(unavailable);
  c.networks[1].script.push(then);
  c.failNext("claimMessages", 1, new Error("not this time"));
}

async function send(channels: readonly string[] = [], meanwhile = async () => {}) {
  const shape = { channel: "", locale: "", purpose: "", bind: {}, webOrigin: undefined, appHash: undefined };
  const fallback = { channels, afterMs: undefined };
  const challengeToken = new Secret("");
  const sent = service.send(caller, { ...shape, phone: ann, fallback, knownUser: false, challengeToken });
  await c.pass(100);
  await meanwhile();
  await c.pass(sendWaitMs);
  return sent;
}

/** The one verification that there is. */
async function opened() {
  const indexes = c.acts.refOf(ann).indexes;
  const [verification] = await c.store.listVerifications(indexes, 1);
  if (verification === undefined) throw new Error("nothing was sent");
  return verification;
}

test("a send that another instance found undeliverable is DELIVERY_FAILED, and its repeat a first call again", async () => {
  failHere(unavailable);
  expect(await send()).toMatchObject({ result: { refusal: { reason: "DELIVERY_FAILED" } }, replayed: false });
  expect(c.calls).toEqual(["one unavailable", "two unavailable"]);
  expect(await send()).toMatchObject({ result: { ok: true, value: { delivery: "ACCEPTED" } }, replayed: false });
});

test("one that another instance delivered says so, and so does its repeat", async () => {
  failHere({ kind: "accepted" });
  const told = { ok: true, value: { state: "PENDING", delivery: "ACCEPTED" } };
  expect(await send()).toMatchObject({ result: told, replayed: false });
  expect(c.calls).toEqual(["one unavailable", "two accepted"]);
  expect(await send()).toMatchObject({ result: told, replayed: true });
});

test("one whose next channel another instance took up while it looked is on its way", async () => {
  failHere(unavailable);
  c.failNext("claimFallbacks", 50, new Error("not yet"));
  afterMessages = async () => {
    c.failNext("claimFallbacks", 0, new Error("not any more"));
    await c.store.claimFallbacks(10, {
      phoneOf: c.acts.phoneOf,
      numberOf: () => undefined,
      capsOf: () => [],
      decide: (view) => decideFallback(view, { policy: c.acts.policy, channelsOn: ["sms", "voice"] }),
    });
  };
  expect((await send(["voice"])).result).toMatchObject({ ok: true, value: { state: "PENDING" } });
  expect((await c.store.readMessages((await opened()).id)).map(({ channel }) => channel)).toEqual(["sms", "voice"]);
});

test("one that no channel took is DELIVERY_FAILED", async () => {
  failHere(unavailable);
  const { result } = await send(["voice"]);
  // No provider here speaks.
  await c.pass(sendWaitMs);
  expect((await opened()).state).toBe("FAILED");
  expect(result).toMatchObject({ refusal: { reason: "DELIVERY_FAILED" } });
});

test("one that was canceled before its second try is told so, and not that it failed", async () => {
  failHere({ kind: "accepted" });
  const { result } = await send([], async () => void (await c.acts.cancel(await opened())));
  expect(result).toMatchObject({ ok: true, value: { state: "CANCELED" } });
});

test("a resend that was never called, since the code was typed meanwhile, is not the phone's fault", async () => {
  const { result } = await send();
  if (!result.ok) throw new Error(result.refusal.reason);
  await c.pass(30_000);
  const open = c.leaveOpen(c.networks[0], placesMax);
  for (let i = 0; i < placesMax; i += 1) void c.worker.deliver(await c.acts.send(ben), 0);
  await c.settled();
  const resent = service.resend({ ...caller, idempotencyKey: "k2" }, { id: result.value.id, channel: "" });
  await c.settled();
  const verification = await opened();
  await c.acts.guess(verification, c.acts.rightCode(verification));
  for (const { answer } of open) answer({ kind: "accepted" });
  await c.pass(sendWaitMs);
  expect((await resent).result).toMatchObject({ ok: true, value: { state: "VERIFIED" } });
});

test("one whose look takes too long is on its way", async () => {
  failHere(unavailable);
  afterMessages = () => new Promise(() => {});
  const sent = send();
  await c.settled();
  await c.pass(sendWaitMs + 1_000);
  expect((await sent).result).toMatchObject({ ok: true, value: { state: "PENDING", delivery: "SENDING" } });
});

test("one that nobody can look at is on its way", async () => {
  failHere(unavailable);
  c.failNext("readMessages", 1, new Error("no database"));
  expect((await send()).result).toMatchObject({ ok: true, value: { state: "PENDING", delivery: "SENDING" } });
});

test("a resend that another instance took back is told of, also when the next resend has its place", async () => {
  const { result } = await send();
  if (!result.ok) throw new Error(result.refusal.reason);
  await c.pass(30_000);
  failHere(unavailable);
  const ask = (idempotencyKey: string) =>
    service.resend({ ...caller, idempotencyKey }, { id: result.value.id, channel: "" });
  let first: Awaited<ReturnType<typeof ask>> | undefined;
  void ask("k2").then((answer) => (first = answer));
  await c.pass(1_500);
  expect(c.calls).toEqual(["one accepted", "one unavailable", "two unavailable"]);
  const [open] = [c.leaveOpen(c.networks[0], 1)];
  const second = ask("k3");
  await c.settled();
  // The first one's wait would be over now, and is not the second one's.
  await c.pass(500);
  open[0]?.answer({ kind: "accepted" });
  await c.pass(sendWaitMs);
  expect(first?.result.ok).toBe(true);
  expect(await second).toMatchObject({ result: { ok: true, value: { delivery: "ACCEPTED", resendsRemaining: 1 } } });
});
