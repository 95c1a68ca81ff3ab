/**
 * Named limits over the wire: who may name them, what a refusal says, and that they hold against sends from another process.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { connectByFetch, surfaces, type Message } from "../support/clients/surfaces.ts";
import { fireVolley, tally } from "../support/clients/volley.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { newPhone } from "../support/data/phones.ts";
import { bytesOf } from "../support/databases/rows.ts";
import { runHere } from "../support/service/command-line.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let publishable: string;
let sandboxKey: string;
beforeAll(async () => {
  world = await startWorld();
  vi.stubEnv("OTP_DATABASE_URL", `file:${world.databasePath}`);
  const settings = ["--limit", "user=5@1h,20@24h", "--limit", "ip=2@1m"];
  const { code, errors } = await runHere(["tenants", "set", "default", ...settings]);
  if (code !== 0) throw new Error(errors);
  publishable = (await world.makeKey({ kind: "pub", scopes: ["send", "verify"], origins: ["https://shop.example"] }))
    .text;
  sandboxKey = (await world.makeKey({ kind: "test" })).text;
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await world.stop();
});
let user: string;
let users = 0;
beforeEach(() => (user = `user-${users++}`));

const send = (limit_keys: Record<string, string>, key = world.key, more: Message = {}, headers = {}) =>
  connectByFetch.call(world.url, "SendOtp", { phone: newPhone(), limit_keys, ...more }, { key, headers });

describe("limit_keys", () => {
  test.each(surfaces)("are counted on every surface, and refuse with their name on $name", async (surface) => {
    for (let i = 0; i < 2; i++) expect((await send({ ip: user })).reason).toBeUndefined();
    const message = { phone: newPhone(), limit_keys: { ip: user, user: "4711" } };
    const outcome = await surface.call(world.url, "SendOtp", message, { key: world.key });
    expectRefusal(outcome, "LIMIT_REACHED", {
      field: "limit_keys.ip",
      retryAfterSeconds: 60,
      metadata: { limit: "ip" },
    });
  });

  test("are told in the error's metadata by their name, and never by their value", async () => {
    for (let i = 0; i < 2; i++) await send({ ip: user });
    const answer = await fetch(`${world.url}/v1/otp/send`, {
      method: "POST",
      headers: { authorization: `Bearer ${world.key}`, "content-type": "application/json" },
      body: JSON.stringify({ phone: newPhone(), limit_keys: { ip: user } }),
    });
    const text = await answer.text();
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([429, "60"]);
    expect(text).toContain('"metadata":{"field":"limit_keys.ip","limit":"ip"}');
    expect(text).not.toContain(user);
  });

  test.each<[string, Record<string, string>, string]>([
    ["a name that is not set", { other: "v" }, "limit_keys.other"],
    ["a name that no limit can have", { "Not a name!": "v" }, "limit_keys"],
    ["an empty name", { "": "v" }, "limit_keys"],
    ["an empty value, which would be everybody's", { user: "" }, "limit_keys.user"],
    ["a value of more than 256 characters", { user: "v".repeat(257) }, "limit_keys.user"],
    ["five of them", { a: "1", b: "2", c: "3", d: "4", e: "5" }, "limit_keys"],
  ])("with %s are INVALID_REQUEST, and nothing is sent", async (_, limitKeys, field) => {
    const before = world.network.received.length;
    const outcome = await send(limitKeys);
    expectRefusal(outcome, "INVALID_REQUEST", { field });
    expect(world.network.received.length).toBe(before);
  });

  test("may have a value of 256 characters in any script", async () => {
    expect((await send({ user: "é".repeat(256) })).reason).toBeUndefined();
  });

  test("are for secret keys: a page could use up whomever it names", async () => {
    const headers = { origin: "https://shop.example" };
    expectRefusal(await send({ user }, publishable, {}, headers), "INVALID_REQUEST", { field: "limit_keys" });
    expect((await send({}, publishable, {}, headers)).reason).toBeUndefined();
  });

  test("belong to what an Idempotency-Key stands for, and a repeat spends nothing", async () => {
    const phone = newPhone();
    const once = (limit_keys: Record<string, string>) =>
      send(limit_keys, world.key, { phone }, { "idempotency-key": user });
    const first = await once({ ip: user });
    for (let i = 0; i < 5; i++)
      expect((await once({ ip: user })).value?.["request_id"]).toBe(first.value?.["request_id"]);
    for (const other of [{ ip: "another" }, {}, { ip: user, user }]) {
      expect((await once(other)).reason).toBe("IDEMPOTENCY_KEY_REUSED");
    }
    expect([(await send({ ip: user })).reason, (await send({ ip: user })).reason]).toEqual([
      undefined,
      "LIMIT_REACHED",
    ]);
  });

  test("have their names checked in the sandbox, where nothing counts", async () => {
    const inSandbox = (limitKeys: Record<string, string>) => send(limitKeys, sandboxKey, { phone: "+14155550100" });
    for (let i = 0; i < 5; i++) expect((await inSandbox({ ip: user })).reason).toBeUndefined();
    expectRefusal(await inSandbox({ other: "v" }), "INVALID_REQUEST", { field: "limit_keys.other" });
  });

  test("are nowhere in the database, and in no log line, as they were given", async () => {
    const value = "anna.k@mail.example";
    await send({ user: value });
    expect((await bytesOf(world.database)).includes(value)).toBe(false);
    expect(JSON.stringify(world.observed)).not.toContain(value);
  });
});

test("of 100 sends at once for one user 5 go out, to whatever phones", async () => {
  const shots = Array.from({ length: 100 }, () => ({
    rpc: "SendOtp" as const,
    message: { phone: newPhone(), limit_keys: { user } },
  }));
  const before = world.network.received.length;
  const hits = await fireVolley({ url: world.url, key: world.key, connections: 50, shots });
  expect(tally(hits)).toEqual({ OK: 5, LIMIT_REACHED: 95 });
  expect(world.network.received.length - before).toBe(5);
});
