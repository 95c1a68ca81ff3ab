/**
 * Commits that nobody can tell the outcome of: the connection ends before COMMIT gets there, or when its answer is on its
 * way back. What such an act decided is never told, and it is never done again by itself.
 */
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { ann, createActs } from "../store/acts.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { countRows, rowOf, select, stateNumbers } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { connectByFetch, surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startTcpProxy, through, type Direction, type TcpProxy } from "../support/network/tcp-proxy.ts";
import { startWorld, type World } from "../support/service/world.ts";

/** What a call writes, and nothing that the instance does by itself. */
const ofCalls = /(insert|update)-verifications|writes/;

let proxy: TcpProxy;
let world: World;
beforeAll(async () => {
  proxy = await startTcpProxy(Number(new URL(inject("postgres") ?? "").port));
  world = await startWorld({ OTP_DATABASE_URL: through(proxy, (await newDatabase()) ?? "") });
});
afterAll(async () => {
  await world.stop();
  await proxy.stop();
});

const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}) =>
  connectByFetch.call(world.url, rpc, message, { key: world.key, headers });

async function send(): Promise<{ request_id: string; code: string }> {
  const phone = newPhone();
  const { value } = await call("SendOtp", { phone });
  await noted(value?.["request_id"]);
  return { request_id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
}

/** What became of a request's messages is noted: that too writes, and would be lost in the place of what a call writes. */
async function noted(requestId: unknown): Promise<void> {
  const id = Buffer.from(String(requestId), "base64url");
  const owed = "SELECT 1 FROM messages WHERE verification_id = $1 AND due_ms IS NOT NULL";
  await expect.poll(() => select(world.database, owed, [id])).toEqual([]);
}

/** Makes a call whose COMMIT, or the answer to it, is lost with its connection. */
async function callLosing(direction: Direction, rpc: Rpc, message: Message, headers: Record<string, string> = {}) {
  const lost = proxy.cutAt(direction, "COMMIT", ofCalls);
  const outcome = await call(rpc, message, headers);
  await lost;
  return outcome;
}

const unavailable = { code: "UNAVAILABLE", reason: "STORE_UNAVAILABLE", http: 503 };

test("a wrong code whose COMMIT did not get there is not evaluated, and costs nothing", async () => {
  const { request_id, code } = await send();
  const lost = await callLosing("there", "VerifyOtp", { request_id, code: wrongCode(code) });
  expect(lost).toMatchObject(unavailable);
  expect(lost.attemptsRemaining).toBeUndefined();
  expect(await rowOf(world.database, request_id)).toMatchObject({ attempts: 0, state: stateNumbers.PENDING });
});

test("a wrong code whose COMMIT was done unheard is spent once, and its caller is not told that it was wrong", async () => {
  const { request_id, code } = await send();
  const lost = await callLosing("back", "VerifyOtp", { request_id, code: wrongCode(code) });
  expect(lost).toMatchObject(unavailable);
  expect(lost.attemptsRemaining).toBeUndefined();
  expect(await rowOf(world.database, request_id)).toMatchObject({ attempts: 1, state: stateNumbers.PENDING });
  const next = await call("VerifyOtp", { request_id, code: wrongCode(code, 2) });
  expect(next).toMatchObject({ reason: "CODE_MISMATCH", attemptsRemaining: 3 });
});

test("five wrong codes whose COMMITs were done unheard are five attempts", async () => {
  const { request_id, code } = await send();
  for (let i = 1; i <= 5; i += 1) {
    expect(await callLosing("back", "VerifyOtp", { request_id, code: wrongCode(code, i) })).toMatchObject(unavailable);
  }
  expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "OTP_LOCKED" });
  expect(await rowOf(world.database, request_id)).toMatchObject({ attempts: 5, state: stateNumbers.LOCKED });
});

test("a right code whose COMMIT did not get there verifies nothing, and does so when it is typed again", async () => {
  const { request_id, code } = await send();
  expect(await callLosing("there", "VerifyOtp", { request_id, code })).toMatchObject(unavailable);
  expect(await rowOf(world.database, request_id)).toMatchObject({ attempts: 0, state: stateNumbers.PENDING });
  expect((await call("VerifyOtp", { request_id, code })).value).toMatchObject({ state: "STATE_VERIFIED" });
});

test("a right code whose COMMIT was done unheard has no second success but for its own repeat", async () => {
  const { request_id, code } = await send();
  const headers = { "idempotency-key": "mine" };
  expect(await callLosing("back", "VerifyOtp", { request_id, code }, headers)).toMatchObject(unavailable);
  expect(await rowOf(world.database, request_id)).toMatchObject({ attempts: 1, state: stateNumbers.VERIFIED });
  expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "OTP_ALREADY_VERIFIED" });
  const repeat = await call("VerifyOtp", { request_id, code }, headers);
  expect(repeat.value).toMatchObject({ state: "STATE_VERIFIED" });
  expect(repeat.headers.get("idempotency-replayed")).toBe("true");
});

/** How many rows there are, and how many SMS were sent to a number. */
async function kept(phone: string): Promise<{ verifications: number; messages: number; texts: number }> {
  return {
    verifications: await countRows(world.database, "verifications"),
    messages: await countRows(world.database, "messages"),
    texts: world.network.received.filter(({ to }) => to === phone).length,
  };
}

test("a send whose COMMIT was done unheard is one verification, and its SMS is sent by whoever looks next", async () => {
  const phone = newPhone();
  const before = await kept(phone);
  const once = { verifications: before.verifications + 1, messages: before.messages + 1 };
  const headers = { "idempotency-key": "mine" };
  expect(await callLosing("back", "SendOtp", { phone }, headers)).toMatchObject(unavailable);
  expect(await kept(phone)).toEqual({ ...once, texts: 0 });
  // The lease of whoever had it in hand is over, and so is the time for which the call counts as under way.
  world.system.advance(31_000);
  await expect.poll(() => kept(phone)).toEqual({ ...once, texts: 1 });
  const repeat = await call("SendOtp", { phone }, headers);
  expect(repeat.headers.get("idempotency-replayed")).toBe("true");
  expect(await kept(phone)).toEqual({ ...once, texts: 1 });
  await noted(repeat.value?.["request_id"]);
});

test("a send whose COMMIT did not get there leaves nothing, and no SMS", async () => {
  const phone = newPhone();
  const before = await kept(phone);
  expect(await callLosing("there", "SendOtp", { phone })).toMatchObject(unavailable);
  expect(await kept(phone)).toEqual(before);
});

test.each<[Rpc, (it: { request_id: string; code: string }) => Message]>([
  ["SendOtp", () => ({ phone: newPhone() })],
  ["VerifyOtp", ({ request_id, code }) => ({ request_id, code: wrongCode(code) })],
])("%s whose COMMIT is lost is retried with a key alone, since it would be done twice", async (rpc, make) => {
  for (const direction of ["there", "back"] as const) {
    for (const surface of [connectByFetch, ...surfaces.filter(({ name }) => name === "gRPC")]) {
      const answer = async (headers: Record<string, string>) => {
        const body = make(await send());
        const lost = proxy.cutAt(direction, "COMMIT", ofCalls);
        const outcome = await surface.call(world.url, rpc, body, { key: world.key, headers });
        await lost;
        return outcome;
      };
      const bare = await answer({});
      expectRefusal(bare, "STORE_UNAVAILABLE", { mayBeDone: true });
      const keyed = await answer({ "idempotency-key": newPhone() });
      expectRefusal(keyed, "STORE_UNAVAILABLE", { retryAfterSeconds: 1 });
    }
  }
});

test("CancelOtp and GetOtp do no harm twice, so they may be retried whatever became of them", async () => {
  const { request_id } = await send();
  const lost = await callLosing("back", "CancelOtp", { request_id });
  expectRefusal(lost, "STORE_UNAVAILABLE", { retryAfterSeconds: 1 });
});

test("what the database was lost before is known not to be done, so its call may be retried", async () => {
  // A store by itself: what an instance does at its start would say the words that the connection is cut at.
  const own = await startTcpProxy(Number(new URL(inject("postgres") ?? "").port));
  const system = createManualSystem();
  const store = await openOnPostgres({ url: through(own, (await newDatabase()) ?? ""), system });
  const acts = createActs(store, system);
  for (const word of ["BEGIN", "verifications"]) {
    const lost = own.cutAt("there", word);
    await expect(acts.send(ann)).rejects.toMatchObject({ name: "StoreUnavailable", mayBeDone: false });
    await lost;
  }
  expect((await acts.send(ann)).verification.state).toBe("PENDING");
  await store.close();
  await own.stop();
});
