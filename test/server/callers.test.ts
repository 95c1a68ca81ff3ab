/**
 * The limits on callers over the wire: what counts for an address, what is given back, and that nothing a caller writes
 * makes two addresses of one.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { publishableScopes } from "../../src/otp/keys/api-key.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { connectByFetch, surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { fireVolley, tally, type Shot } from "../support/clients/volley.ts";
import { startWorld, type World } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

const shop = "https://shop.example";
const request_id = "AAAAAAAAAAAAAAAAAAAAAA";
const fictional = "+14155550100";

let world: World;
let page: string;
async function start(env: Record<string, string> = {}): Promise<void> {
  world = await startWorld(env);
  page = (await world.makeKey({ kind: "pub", scopes: ["send", ...publishableScopes], origins: [shop] })).text;
}
beforeEach(() => start());
afterEach(() => world.stop());

type Options = { key?: string; headers?: Record<string, string>; surface?: (typeof surfaces)[number] };
function call(rpc: Rpc, message: Message, { key = page, headers = {}, surface = connectByFetch }: Options = {}) {
  const origin = key === page ? { origin: shop } : {};
  return surface.call(world.url, rpc, message, { key, headers: { ...origin, ...headers } });
}
const send = (message: Message = {}, options: Options = {}) =>
  call("SendOtp", { phone: newPhone(), ...message }, options);

/** How many of so many are let through. */
async function served(count: number, ask: (i: number) => ReturnType<typeof call>): Promise<number> {
  let answered = 0;
  for (let i = 0; i < count; i++) {
    const { reason } = await ask(i);
    if (reason !== "IP_RATE_LIMITED") answered += 1;
  }
  return answered;
}

describe.each(sampled(surfaces, 2))("over $name", (surface) => {
  test("a publishable key sends ten times at once from one address, and then once a minute", async () => {
    const options = { surface };
    for (let i = 0; i < 10; i++) expect((await send({}, options)).value).toMatchObject({ state: "STATE_PENDING" });
    expectRefusal(await send({}, options), "IP_RATE_LIMITED", { retryAfterSeconds: 60 });
    world.system.advance(60_000);
    expect((await send({}, options)).reason).toBeUndefined();
    expect((await send({}, options)).reason).toBe("IP_RATE_LIMITED");
    expect(world.network.received).toHaveLength(11);
  });

  test("its sends beyond that are told the wait for a message, however many there are", async () => {
    const options = { surface };
    for (let i = 0; i < 10; i++) await send({}, options);
    // From the 61st on they are refused before their body is read.
    for (let i = 10; i < 60; i++) await send({}, options);
    for (let i = 0; i < 3; i++) {
      expectRefusal(await send({}, options), "IP_RATE_LIMITED", { retryAfterSeconds: 60 });
    }
    // A number that is none is refused for itself, and still an attempt too many.
    expectRefusal(await send({ phone: "+310" }, options), "IP_RATE_LIMITED", { retryAfterSeconds: 60 });
  });

  test("its other calls are sixty at once, together, and then one a second", async () => {
    const rpcs = ["VerifyOtp", "CancelOtp", "GetOtp"] as const;
    const ask = (i: number) => {
      const rpc = rpcs[i % 3] ?? "GetOtp";
      return call(rpc, rpc === "VerifyOtp" ? { request_id, code: "123456" } : { request_id }, { surface });
    };
    expect(await served(60, ask)).toBe(60);
    for (const i of [0, 1, 2]) expectRefusal(await ask(i), "IP_RATE_LIMITED", { retryAfterSeconds: 1 });
    world.system.advance(1_000);
    expect(await served(3, ask)).toBe(1);
  });
});

test("parallel sends from another process never get past ten, and resends share them", async () => {
  const shots = (): Shot[] =>
    Array.from({ length: 100 }, () => ({ rpc: "SendOtp", message: { phone: newPhone() }, headers: { origin: shop } }));
  // An app's key, since the volley warms up without an origin.
  const { text: key } = await world.makeKey({
    kind: "pub",
    scopes: ["send", ...publishableScopes],
    origins: [shop],
    isApp: true,
  });
  const hits = await fireVolley({ url: world.url, key, connections: 20, shots: shots() });
  expect(tally(hits)).toEqual({ OK: 10, IP_RATE_LIMITED: 90 });
  expect(world.network.received).toHaveLength(10);
  world.system.advance(60_000);
  const id = hits.find(({ outcome }) => outcome === "OK")?.requestId ?? "";
  expect((await call("ResendOtp", { request_id: id })).reason).toBeUndefined();
  expect((await send()).reason).toBe("IP_RATE_LIMITED");
});

describe.each(sampled(surfaces, 2))("an operator's limits of an address over $name", (surface) => {
  const options = { surface };
  test("are of sends, and of all other calls", async () => {
    await world.stop();
    await start({ OTP_IP_SEND_LIMIT: "3@2m", OTP_IP_VERIFY_LIMIT: "5@10s" });
    expect(await served(4, () => send({}, options))).toBe(3);
    expectRefusal(await send({}, options), "IP_RATE_LIMITED", { retryAfterSeconds: 120 });
    const look = () => call("GetOtp", { request_id }, options);
    expect(await served(6, look)).toBe(5);
    expectRefusal(await look(), "IP_RATE_LIMITED", { retryAfterSeconds: 10 });
  });

  test("hold for the address that a backend names", async () => {
    await world.stop();
    await start({ OTP_IP_SEND_LIMIT: "3@2m", OTP_IP_VERIFY_LIMIT: "5@10s" });
    const of = { key: world.key, surface };
    const client_ip = "192.0.2.7";
    expect(await served(5, () => send({ client_ip }, of))).toBe(3);
    const verify = () => call("VerifyOtp", { request_id, code: "123456", client_ip }, of);
    expect(await served(8, verify)).toBe(5);
  });
});

test("a page's test key sends a hundred times at once, then once a second, whatever the operator's limit", async () => {
  await world.stop();
  await start({ OTP_IP_SEND_LIMIT: "2@1h", OTP_IP_VERIFY_LIMIT: "2@1h" });
  const scopes = ["send", ...publishableScopes] as const;
  page = (await world.makeKey({ kind: "pubtest", scopes: [...scopes], origins: [shop] })).text;
  const sandboxSend = () => send({ phone: fictional });
  expect(await served(101, sandboxSend)).toBe(100);
  expectRefusal(await sandboxSend(), "IP_RATE_LIMITED", { retryAfterSeconds: 1 });
  expect(await served(101, () => call("GetOtp", { request_id }))).toBe(100);
  world.system.advance(1_000);
  expect(await served(2, sandboxSend)).toBe(1);
});

describe("a send's place", () => {
  test("is given back when nothing was spent", async () => {
    const sent = await send({}, { headers: { "idempotency-key": "once" } });
    const id = String(sent.value?.["request_id"]);
    const cheap: (() => ReturnType<typeof call>)[] = [
      () => send({ phone: "+310" }),
      () => send({ phone: fictional }),
      () => send({ channel: "fax" }),
      () => send({ locale: "!" }),
      () => send({ phone: "+310" }, { headers: { "idempotency-key": "once" } }),
      () => call("ResendOtp", { request_id }),
      () => call("ResendOtp", { request_id: id }),
    ];
    for (let i = 0; i < 5; i++) for (const ask of cheap) expect((await ask()).reason).toBeDefined();
    expect(await served(20, () => send())).toBe(9);
  });

  test("is given back by a replay, which answers though there is no place left", async () => {
    const once = { phone: newPhone() };
    const headers = { "idempotency-key": "once" };
    const first = await send(once, { headers });
    for (let i = 0; i < 20; i++) expect((await send(once, { headers })).value).toEqual(first.value);
    expect(await served(20, () => send())).toBe(9);
    const again = await send(once, { headers });
    expect([again.value, again.headers.get("idempotency-replayed")]).toEqual([first.value, "true"]);
  });

  test("is given back by what the phone's own limit refused", async () => {
    await world.stop();
    await start({ OTP_PHONE_LIMITS: "1@1d" });
    const phone = newPhone();
    await send({ phone });
    for (let i = 0; i < 20; i++) expect((await send({ phone })).reason).toBe("PHONE_RATE_LIMITED");
    expect(await served(20, () => send())).toBe(9);
  });

  test("is kept by what a provider refused", async () => {
    for (let i = 0; i < 10; i++) {
      world.network.script.push({ kind: "refused", cause: "recipient", detail: "no" });
      expect((await send()).reason).toBe("PHONE_UNREACHABLE");
    }
    expect((await send()).reason).toBe("IP_RATE_LIMITED");
  });

  test("that there is none of is told after what is wrong with the request, and in the order of the contract", async () => {
    expect(await served(11, () => send())).toBe(10);
    expect((await send({ phone: "+310" })).reason).toBe("PHONE_INVALID");
    expect((await send({ channel: "fax" })).reason).toBe("CHANNEL_UNSUPPORTED");
    expect((await send({ locale: "!" })).reason).toBe("INVALID_REQUEST");
    expect((await call("ResendOtp", { request_id })).reason).toBe("REQUEST_NOT_FOUND");
  });
});

test("a verify counts whatever comes of it, and a wrong code that is refused for the address is no attempt", async () => {
  const phone = newPhone();
  const id = String((await send({ phone })).value?.["request_id"]);
  const code = world.network.codeFor(phone);
  for (let i = 0; i < 60; i++) await call("GetOtp", { request_id });
  for (let i = 1; i < 10; i++) {
    expect((await call("VerifyOtp", { request_id: id, code: wrongCode(code, i) })).reason).toBe("IP_RATE_LIMITED");
  }
  const get = await call("GetOtp", { request_id: id }, { key: world.key });
  expect(get.value).toMatchObject({ attempts_remaining: 5 });
});

describe("client_ip", () => {
  const ip = (client_ip: string) => send({ client_ip }, { key: world.key });

  test("has a secret key's calls count for that address, however it is spelled", async () => {
    const six = [
      "192.0.2.7",
      "::ffff:192.0.2.7",
      "::FFFF:c000:207",
      "192.0.2.7:443",
      "[::ffff:192.0.2.7]:1",
      " 192.0.2.7",
    ];
    expect(await served(30, (i) => ip(six[i % 6] ?? ""))).toBe(10);
    expect(await served(30, (i) => ip(`2001:db8:0:1::${i.toString(16)}`))).toBe(10);
    expect((await ip("2001:db8:0:2::1")).reason).toBeUndefined();
    const verify = (client_ip: string) => call("VerifyOtp", { request_id, code: "1", client_ip }, { key: world.key });
    expect(await served(70, () => verify("192.0.2.7"))).toBe(60);
    expect((await call("ResendOtp", { request_id, client_ip: "192.0.2.7" }, { key: world.key })).reason).toBe(
      "REQUEST_NOT_FOUND",
    );
  });

  test("that is no address is refused, and says so before anything else is asked", async () => {
    for (const wrong of ["nonsense", "192.0.2.256", "192.0.2.7, 192.0.2.8", "x".repeat(65)]) {
      expectRefusal(await ip(wrong), "INVALID_REQUEST", { field: "client_ip" });
    }
    expect(world.network.received).toEqual([]);
  });

  test("is needed for a secret key to have the limits of an address, in the sandbox too", async () => {
    expect(await served(30, () => send({}, { key: world.key }))).toBe(30);
    const { text: key } = await world.makeKey({ kind: "test" });
    expect(await served(30, () => send({ phone: fictional }, { key }))).toBe(30);
    expect(await served(30, () => send({ phone: fictional, client_ip: "192.0.2.7" }, { key }))).toBe(10);
    expect((await ip("192.0.2.7")).reason).toBeUndefined();
  });
});

describe("X-Forwarded-For", () => {
  const forged = (i: number) => `198.51.${i >> 8}.${i & 255}`;

  test("that is forged by an untrusted peer makes no second address of it", async () => {
    expect(await served(40, (i) => send({}, { headers: { "x-forwarded-for": forged(i) } }))).toBe(10);
  });

  test("of a trusted proxy names the caller by what that proxy wrote, and not by what was there before", async () => {
    await world.stop();
    await start({ OTP_TRUSTED_PROXIES: "127.0.0.0/8, 10.0.0.0/8" });
    const from = (list: string) => send({}, { headers: { "x-forwarded-for": list } });
    expect(await served(40, (i) => from(`${forged(i)}, 192.0.2.7, 10.0.0.1`))).toBe(10);
    expect(await served(20, (i) => from(forged(i)))).toBe(20);
  });
});

test("one key is called a thousand times a second, and another has calls of its own", async () => {
  await world.stop();
  await start({ OTP_KEY_LIMIT: "20@1ms" });
  const outcomes: (string | undefined)[] = [];
  for (const surface of surfaces) {
    for (let i = 0; i < 4; i++)
      outcomes.push((await call("GetOtp", { request_id }, { key: world.key, surface })).reason);
  }
  expect(new Set(outcomes)).toEqual(new Set(["REQUEST_NOT_FOUND"]));
  for (const surface of surfaces) {
    const options = { key: world.key, surface };
    expectRefusal(await call("GetOtp", { request_id }, options), "KEY_RATE_LIMITED", { retryAfterSeconds: 1 });
  }
  expect((await call("GetOtp", { request_id })).reason).toBe("REQUEST_NOT_FOUND");
  world.system.advance(1);
  expect((await call("GetOtp", { request_id }, { key: world.key })).reason).toBe("REQUEST_NOT_FOUND");
  expect((await call("GetOtp", { request_id }, { key: world.key })).reason).toBe("KEY_RATE_LIMITED");
});

describe("what one address is refused", () => {
  const floods: Record<string, (from: Options) => ReturnType<typeof call>> = {
    "calls for a request that there is not": (from) => call("GetOtp", { request_id }, from),
    "calls without a request": (from) => call("VerifyOtp", {}, from),
    "sends to what is no number": (from) => send({ phone: "+310" }, from),
    "resends of a request that there is not": (from) => call("ResendOtp", { request_id }, from),
  };
  test.each(Object.keys(floods))("is not taken from those who share its publishable key: %s", async (name) => {
    await world.stop();
    await start({ OTP_KEY_LIMIT: "100@1s", OTP_TRUSTED_PROXIES: "127.0.0.0/8" });
    const from = (address: string) => ({ headers: { "x-forwarded-for": address } });
    const phone = newPhone();
    const sent = await send({ phone }, from("192.0.2.7"));
    const reasons: (string | undefined)[] = [];
    for (let i = 0; i < 120; i++) reasons.push((await floods[name]?.(from("203.0.113.9")))?.reason);
    expect(reasons.slice(60)).toEqual(Array<string>(60).fill("IP_RATE_LIMITED"));
    const message = { request_id: String(sent.value?.["request_id"]), code: world.network.codeFor(phone) };
    expect((await call("VerifyOtp", message, from("192.0.2.7"))).value).toMatchObject({ state: "STATE_VERIFIED" });
  });
});

test("wrong keys from one address are limited on every surface, and a right one beside them is not", async () => {
  await world.stop();
  await start({ OTP_AUTH_FAILURE_LIMIT: "10@1s" });
  expect((await call("GetOtp", { request_id }, { key: world.key })).reason).toBe("REQUEST_NOT_FOUND");
  for (let i = 0; i < 10; i++)
    expect((await call("GetOtp", { request_id }, { key: "x" })).reason).toBe("API_KEY_INVALID");
  for (const surface of surfaces) {
    const wrong = await call(
      "GetOtp",
      { request_id },
      { key: "x", surface, headers: { "x-forwarded-for": "192.0.2.9" } },
    );
    expectRefusal(wrong, "IP_RATE_LIMITED", { retryAfterSeconds: 1 });
    expect((await call("GetOtp", { request_id }, { key: world.key, surface })).reason).toBe("REQUEST_NOT_FOUND");
  }
});
