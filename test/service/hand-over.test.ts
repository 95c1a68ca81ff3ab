/**
 * What a call is answered whose message another instance had in hand when the wait was over: the acts and two workers on
 * real SQLite. The call's own worker cannot claim the second try, so the other one does.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Secret } from "../../src/otp/keys/secret.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Caller } from "../../src/service/calls.ts";
import { createVerifications, type Verifications } from "../../src/service/verifications.ts";
import { createCarriage, type Carriage } from "../delivery/worker-setup.ts";
import { ann } from "../store/acts.ts";
import { ofOneMind } from "../support/service/tenants.ts";

const unavailable: SendOutcome = { kind: "unavailable", detail: "connection refused" };
const sendWaitMs = 2_000;

let c: Carriage;
let service: Verifications;
beforeEach(async () => {
  c = await createCarriage(1);
  const other = await c.another([c.networks[1]]);
  other.start();
  service = createVerifications({
    store: c.store,
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

async function send(channels: readonly string[] = []) {
  const shape = { channel: "", locale: "", purpose: "", bind: {}, webOrigin: undefined, appHash: undefined };
  const fallback = { channels, afterMs: undefined };
  const challengeToken = new Secret("");
  const sent = service.send(caller, { ...shape, phone: ann, fallback, knownUser: false, challengeToken });
  await c.pass(sendWaitMs);
  return sent;
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

test("one whose next channel is owed is on its way", async () => {
  failHere(unavailable);
  const { result } = await send(["voice"]);
  expect(result).toMatchObject({ ok: true, value: { delivery: "SENDING" } });
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
