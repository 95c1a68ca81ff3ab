/**
 * Races, run from another process over 50 connections and every surface at once: the limits hold however many ask.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { rowOf, stateNumbers } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { callUntilReached, connectByFetch, surfaces } from "../support/clients/surfaces.ts";
import { fireVolley, tally, type Shot } from "../support/clients/volley.ts";
import { runHere } from "../support/service/command-line.ts";
import { createPhoneNetwork, startWorld, temporaryFolder, type World } from "../support/service/world.ts";
import { extent } from "../support/extent.ts";

let world: World;
beforeEach(async () => {
  world = await startWorld({ OTP_PHONE_LIMITS: "100@1m" });
});
afterEach(() => world.stop());

/** Runs a command that succeeds, beside the server. */
async function otpd(...args: string[]): Promise<void> {
  const { database } = world;
  vi.stubEnv("OTP_DATABASE_URL", database.kind === "postgres" ? database.url : `file:${database.path}`);
  const { code, errors } = await runHere(args);
  vi.unstubAllEnvs();
  if (code !== 0) throw new Error(errors);
}

const connections = 50;
const many = extent(250, 1_000);
const guesses = extent(400, 1_000);
/** What operators are warned of. */
const warned = () => world.observed.filter(({ event }) => event === "spendWarning").map((observed) => observed.with);

const volley = (shots: readonly Shot[], key = world.key) =>
  fireVolley({ url: world.url, key, connections, shots, database: world.database.kind });

async function send(): Promise<{ id: string; code: string }> {
  const phone = newPhone();
  const { value } = await callUntilReached(() =>
    connectByFetch.call(world.url, "SendOtp", { phone }, { key: world.key }),
  );
  return { id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
}

const guess = (id: string, code: string): Shot => ({ rpc: "VerifyOtp", message: { request_id: id, code } });

test(`of ${guesses} wrong codes at once exactly 5 are evaluated, and the right one comes too late`, async () => {
  const { id, code } = await send();
  const hits = await volley(Array.from({ length: guesses }, (_, i) => guess(id, wrongCode(code, i + 1))));
  expect(tally(hits)).toEqual({ CODE_MISMATCH: 5, OTP_LOCKED: guesses - 5 });
  expect(new Set(hits.map(({ surface }) => surface)).size).toBe(5);
  const left = hits.flatMap(({ attemptsRemaining }) => (attemptsRemaining === undefined ? [] : [attemptsRemaining]));
  expect(left.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4]);
  expect(await rowOf(world.database, id)).toEqual({ attempts: 5, state: stateNumbers.LOCKED, hasSalt: false });
  for (const surface of surfaces) {
    const { reason } = await surface.call(world.url, "VerifyOtp", { request_id: id, code }, { key: world.key });
    expect(reason).toBe("OTP_LOCKED");
  }
});

test("with the right code among many, at most 5 are evaluated and nothing succeeds after the lock", async () => {
  const { id, code } = await send();
  const shots = Array.from({ length: many }, (_, i) => guess(id, i === many / 2 ? code : wrongCode(code, i + 1)));
  const { OK: right = 0, CODE_MISMATCH: wrong = 0, ...rest } = tally(await volley(shots));
  const { attempts, state } = await rowOf(world.database, id);
  expect([attempts, right]).toEqual([wrong + right, state === stateNumbers.VERIFIED ? 1 : 0]);
  expect(attempts).toBeLessThanOrEqual(5);
  expect(Object.keys(rest)).toEqual([right === 1 ? "OTP_ALREADY_VERIFIED" : "OTP_LOCKED"]);
});

test("the same right code five times at once verifies once", async () => {
  const rounds = await Promise.all(Array.from({ length: 20 }, send));
  const hits = await volley(rounds.flatMap(({ id, code }) => Array.from({ length: 5 }, () => guess(id, code))));
  for (const [round] of rounds.entries()) {
    expect(tally(hits.slice(round * 5, round * 5 + 5))).toEqual({ OK: 1, OTP_ALREADY_VERIFIED: 4 });
  }
});

test("one right and four wrong codes at once verify exactly once", async () => {
  const rounds = await Promise.all(Array.from({ length: 20 }, send));
  const hits = await volley(
    rounds.flatMap(({ id, code }, round) =>
      Array.from({ length: 5 }, (_, i) => guess(id, i === round % 5 ? code : wrongCode(code, i + 1))),
    ),
  );
  for (const [round, { id }] of rounds.entries()) {
    const { OK, CODE_MISMATCH = 0, OTP_ALREADY_VERIFIED = 0 } = tally(hits.slice(round * 5, round * 5 + 5));
    expect([OK, CODE_MISMATCH + OTP_ALREADY_VERIFIED]).toEqual([1, 4]);
    expect((await rowOf(world.database, id)).attempts).toBe(CODE_MISMATCH + 1);
  }
});

test("of 200 sends at once to one phone, in every spelling, the limit's 100 go out", async () => {
  const spellings = ["+31612000999", "+31 6 12000999", "+31-612-000-999", "+31 (6) 12.000.999"];
  const hits = await volley(
    Array.from({ length: 200 }, (_, i) => ({ rpc: "SendOtp", message: { phone: spellings[i % 4] ?? "" } })),
  );
  expect(tally(hits)).toEqual({ OK: 100, PHONE_RATE_LIMITED: 100 });
  expect(world.network.received.filter(({ to }) => to === "+31612000999")).toHaveLength(100);
});

test(`of ${many} sends at once to as many phones, the day's cap of 137 go out, and of those resent none`, async () => {
  await world.stop();
  world = await startWorld({ OTP_DAILY_MESSAGE_CAP: "137" });
  const phones = Array.from({ length: many }, newPhone);
  const hits = await volley(phones.map((phone) => ({ rpc: "SendOtp", message: { phone } })));
  expect(tally(hits)).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(world.network.received).toHaveLength(137);
  world.system.advance(30_000);
  const ids = hits.flatMap(({ requestId }) => requestId ?? []);
  const again = await volley(ids.map((request_id) => ({ rpc: "ResendOtp", message: { request_id } })));
  expect(tally(again)).toEqual({ SPEND_LIMIT: 137 });
  expect(world.network.received).toHaveLength(137);
  expect(warned()).toEqual([
    ["default", { share: 80, cap: 137 }],
    ["default", { share: 100, cap: 137 }],
  ]);
});

test(`of ${many} sends at once to as many phones, their country's cap of 137 go out, and to another country the next`, async () => {
  await otpd("tenants", "set", "default", "--country-cap", "NL=137");
  const phones = Array.from({ length: many }, newPhone);
  const hits = await volley(phones.map((phone) => ({ rpc: "SendOtp", message: { phone } })));
  expect(tally(hits)).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(world.network.received).toHaveLength(137);
  const of = { cap: 137, country: "NL" };
  expect(warned()).toEqual([
    ["default", { share: 80, ...of }],
    ["default", { share: 100, ...of }],
  ]);
  const { value } = await callUntilReached(() =>
    connectByFetch.call(world.url, "SendOtp", { phone: "+4915123456789" }, { key: world.key }),
  );
  expect(value?.["state"]).toBe("STATE_PENDING");
});

test(`of ${many} calls asked for at once, a cap of 137 are made, and texts go on`, async () => {
  await world.stop();
  const calls = createPhoneNetwork();
  world = await startWorld({ OTP_VOICE_DAILY_CAP: "137" }, undefined, { voice: [{ ...calls, name: "caller" }] });
  const shots = Array.from({ length: many }, () => ({
    rpc: "SendOtp" as const,
    message: { phone: newPhone(), channel: "voice" },
  }));
  expect(tally(await volley(shots))).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(calls.received).toHaveLength(137);
  const of = { cap: 137, channel: "voice" };
  expect(warned()).toEqual([
    ["default", { share: 80, ...of }],
    ["default", { share: 100, ...of }],
  ]);
  expect(await send()).toMatchObject({ id: expect.stringMatching(/^[\w-]{22}$/) });
});

test(`of ${many} sends at once to as many phones, those go out that a cap on money pays for`, async () => {
  await world.stop();
  const prices = join(temporaryFolder(), "prices.json");
  writeFileSync(prices, JSON.stringify({ currency: "EUR", prices: [{ country: "*", per_segment: "0.0730" }] }));
  // 137 times 7.3 cents are 10.001.
  world = await startWorld({ OTP_PRICES_FILE: prices, OTP_DAILY_SPEND_CAP: "10.05" });
  const hits = await volley(Array.from({ length: many }, () => ({ rpc: "SendOtp", message: { phone: newPhone() } })));
  expect(tally(hits)).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(world.network.received).toHaveLength(137);
  const of = { cap: 10_050_000, currency: "EUR" };
  expect(warned()).toEqual([
    ["default", { share: 80, ...of }],
    ["default", { share: 100, ...of }],
  ]);
});

test("of 100 resends at once one goes out", async () => {
  const { id } = await send();
  world.system.advance(30_000);
  const hits = await volley(Array.from({ length: 100 }, () => ({ rpc: "ResendOtp", message: { request_id: id } })));
  expect(tally(hits)).toEqual({ OK: 1, RESEND_TOO_SOON: 99 });
  expect(world.network.received).toHaveLength(2);
});

test("of 100 sends at once under one Idempotency-Key one goes out", async () => {
  const shot: Shot = { rpc: "SendOtp", message: { phone: newPhone() }, headers: { "idempotency-key": "once" } };
  const hits = await volley(Array.from({ length: 100 }, () => shot));
  const { OK = 0, IDEMPOTENCY_IN_PROGRESS = 0 } = tally(hits);
  expect([OK + IDEMPOTENCY_IN_PROGRESS, OK > 0, world.network.received.length]).toEqual([100, true, 1]);
  expect(new Set(hits.flatMap(({ requestId }) => requestId ?? [])).size).toBe(1);
});

test("a cancel against a right code: one of them wins, and both say which", async () => {
  const rounds = await Promise.all(Array.from({ length: 20 }, send));
  const hits = await volley(
    rounds.flatMap(({ id, code }): Shot[] => [guess(id, code), { rpc: "CancelOtp", message: { request_id: id } }]),
  );
  for (const [round] of rounds.entries()) {
    const pair = hits.slice(round * 2, round * 2 + 2).map(({ outcome }) => outcome);
    expect([
      ["OK", "OTP_ALREADY_VERIFIED"],
      ["OTP_CANCELED", "OK"],
    ]).toContainEqual(pair);
  }
});
