/**
 * What /metrics says after a scenario of known calls over real sockets: every family moves when it should, and only then.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createMetrics } from "../../src/observe/metrics.ts";
import { callOutcomes } from "../../src/observe/outcome.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Job } from "../../src/store/store.ts";
import { parseExposition, scrape, type Exposition } from "../support/readers/exposition.ts";
import { wrongCode } from "../support/data/phones.ts";
import { surfaces, type Message, type Rpc, type Surface } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let before: Exposition;
let after: Exposition;
const [rest] = surfaces as readonly [Surface];

const dutch = ["+31612345670", "+31612345671", "+31612345672"] as const;

async function send(phone: string, more: Message = {}, key = world.key) {
  const outcome = await rest.call(world.url, "SendOtp", { phone, ...more }, { key });
  return { ...outcome, id: String(outcome.value?.["request_id"]) };
}
const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}) =>
  rest.call(world.url, rpc, message, { key: world.key, headers });

/** What metrics are asked to look at where nothing is. */
const nobody = {
  system: createManualSystem(),
  store: () => ({
    now: () => 60_000,
    readOutbox: async () => ({ depth: 0, lagMs: 0 }),
    readMessages: async () => [],
    events: { countEvents: async () => 7, nextEventDue: async () => 58_500 },
  }),
  providers: [],
  rpcs: [],
};

beforeAll(async () => {
  world = await startWorld();
  before = await scrape(world.url);
  // Two Dutch numbers and a Belgian one; one of them verified after 20 s, one after a resend and 70 s.
  const quick = await send(dutch[0]);
  world.system.advance(20_000);
  const right = { request_id: quick.id, code: world.network.codeFor(dutch[0]) };
  await call("VerifyOtp", { ...right, code: wrongCode(right.code) });
  await call("VerifyOtp", right, { "idempotency-key": "once" });
  await call("VerifyOtp", right, { "idempotency-key": "once" });
  await call("VerifyOtp", right);
  const slow = await send(dutch[1]);
  world.system.advance(40_000);
  await call("ResendOtp", { request_id: slow.id });
  world.system.advance(30_000);
  await call("VerifyOtp", { request_id: slow.id, code: world.network.codeFor(dutch[1]) });
  await send("+32470123456");
  // Refused before any message: at the door, for want of a key, and where there is no RPC.
  await send("+31201234567");
  await rest.call(world.url, "SendOtp", { phone: dutch[2] }, { key: "otp_live_nonsense" });
  await fetch(`${world.url}/v1/otp/sned`, { method: "POST" });
  await fetch(`${world.url}/v1/otp/send`);
  // A provider that refuses.
  world.network.script.push({ kind: "refused", cause: "content", detail: "" });
  await send(dutch[2]);
  // A test key sends for nothing.
  const { text: testKey } = await world.makeKey({ kind: "test" });
  const staged = await send("+14155550100", {}, testKey);
  await rest.call(world.url, "VerifyOtp", { request_id: staged.id, code: "123456" }, { key: testKey });
  after = await scrape(world.url);
});
// Within a second only so many scrapes are fresh.
beforeEach(() => world.system.advance(1_000));
afterAll(() => world.stop());

/** How much the series of a family grew, by the labels that it grew under. */
function growth(name: string): Record<string, number> {
  const grown = after.samples
    .filter((sample) => sample.name === name)
    .map(({ labels, value }) => [Object.values(labels).join(" "), value - (before.value(name, labels) ?? 0)] as const);
  return Object.fromEntries(grown.filter(([, by]) => by !== 0));
}

describe("after the scenario", () => {
  test("calls are told apart by whose fault it was", () => {
    expect(growth("otp_calls_total")).toEqual({
      "SendOtp ok": 4,
      "SendOtp refused": 2,
      "SendOtp failed": 1,
      "VerifyOtp ok": 4,
      "VerifyOtp refused": 2,
      "ResendOtp ok": 1,
    });
    expect(growth("otp_call_seconds_count")).toEqual({ SendOtp: 6, VerifyOtp: 6, ResendOtp: 1 });
  });

  test("refusals have their reason, also where no call came of it", () => {
    expect(growth("otp_refusals_total")).toEqual({
      "SendOtp PHONE_NOT_MOBILE": 1,
      "SendOtp API_KEY_INVALID": 1,
      "SendOtp DELIVERY_FAILED": 1,
      "VerifyOtp CODE_MISMATCH": 1,
      "VerifyOtp OTP_ALREADY_VERIFIED": 1,
      "none ROUTE_NOT_FOUND": 1,
      "none METHOD_NOT_ALLOWED": 1,
    });
  });

  test("sends are messages that were committed, by country", () => {
    expect(growth("otp_sends_total")).toEqual({ "NL first sms": 3, "NL resend sms": 1, "BE first sms": 1 });
  });

  test("checks are verifies that were decided; a repeat is not decided again", () => {
    expect(growth("otp_checks_total")).toEqual({ VERIFIED: 2, CODE_MISMATCH: 1, OTP_ALREADY_VERIFIED: 1 });
  });

  test("conversion is verified over handed over, by country and provider", () => {
    expect(growth("otp_handed_over_total")).toEqual({ "NL test sms": 2, "BE test sms": 1 });
    expect(growth("otp_verified_total")).toEqual({ "NL test sms": 2 });
  });

  test("where no code was typed yet the conversion is 0, and not none", () => {
    expect(after.value("otp_verified_total", { country: "BE", provider: "test", channel: "sms" })).toBe(0);
  });

  test("the time to verify runs from the send to the right code", () => {
    expect(growth("otp_time_to_verify_seconds_sum")).toEqual({ "NL test sms": 90 });
    const upTo = (le: string) =>
      after.value("otp_time_to_verify_seconds_bucket", { le, country: "NL", provider: "test", channel: "sms" });
    expect(["10", "20", "60", "120", "+Inf"].map(upTo)).toEqual([0, 1, 1, 2, 2]);
  });

  test("the hand-off is observed once a message, with its first call", () => {
    expect(growth("otp_handoff_seconds_count")).toEqual({ "": 5 });
    expect(growth("otp_handoff_seconds_sum")).toEqual({});
  });

  test("provider calls have their outcome", () => {
    expect(growth("otp_provider_calls_total")).toEqual({ "test accepted sms": 4, "test refused sms": 1 });
    expect(growth("otp_provider_call_seconds_count")).toEqual({ "test sms": 5 });
    expect(after.value("otp_provider_breaker_open", { provider: "test", channel: "sms" })).toBe(0);
  });

  test("batches of the store are counted and timed", () => {
    const batches = growth("otp_store_batch_seconds_count")[""] ?? 0;
    expect(batches).toBeGreaterThan(10);
    expect(growth("otp_store_batch_acts_count")).toEqual({ "": batches });
    expect(growth("otp_store_batch_acts_sum")[""]).toBeGreaterThanOrEqual(batches);
    expect(growth("otp_store_batch_seconds_sum")[""]).toBeGreaterThan(0);
    expect(after.value("otp_store_batch_failures_total")).toBe(0);
  });

  test("the event loop's delay is there", async () => {
    // It is sampled once a second, and anew from each look on.
    const lag = async () => (await scrape(world.url)).value("nodejs_eventloop_lag_p99_seconds");
    await expect.poll(lag, { timeout: 20_000 }).toBeGreaterThan(0);
  });
});

test("labels come from closed sets", () => {
  const names = new Set(
    after.samples.filter(({ name }) => name.startsWith("otp_")).flatMap(({ labels }) => Object.keys(labels)),
  );
  expect([...names].toSorted()).toEqual([
    "cause",
    "channel",
    "country",
    "enforced",
    "kind",
    "le",
    "outcome",
    "provider",
    "reason",
    "result",
    "rpc",
  ]);
  expect(after.samples.length).toBeLessThan(400);
});

test("a message is handed over with its first call, whatever becomes of it, from the moment it was owed", async () => {
  const metrics = createMetrics(nobody);
  const { verification, message } = {
    verification: { tenant: "default", region: "NL", createMs: 1_000 },
    message: { copy: 0, channel: "sms", provider: null as string | null },
  };
  type More = { copy?: number; failures: number; provider?: string };
  const called = (more: More, startMs: number, outcome: SendOutcome = { kind: "unavailable", detail: "" }) => {
    // What is counted looks at no more of a job.
    const job = { verification, message: { ...message, ...more }, now: 60_000 } as unknown as Job;
    metrics.providerCall("test", outcome, 5, job, startMs);
  };
  called({ failures: 0 }, 1_250);
  called({ failures: 1, provider: "test" }, 9_000);
  // Claimed from the outbox, after a crash: it was owed since the send.
  called({ failures: 0 }, 31_000);
  // A resend is owed since its own commit.
  called({ copy: 1, failures: 0 }, 60_500);
  // One that a provider had wait is looked at again and again, and that provider is not called.
  const waits: SendOutcome = { kind: "throttled", retryAfterMs: 5_000, detail: "" };
  called({ failures: 0, provider: "test" }, 90_000, waits);
  for (let i = 0; i < 5; i++) called({ failures: 0, provider: "test" }, 95_000, { ...waits, isUnasked: true });
  const { value } = parseExposition((await metrics.render()).body);
  expect([value("otp_handoff_seconds_count"), value("otp_handoff_seconds_sum")]).toEqual([3, 30.75]);
  const calls = { provider: "test", outcome: "throttled", channel: "sms" };
  expect(value("otp_provider_calls_total", calls)).toBe(1);
});

test("a call that found no room has failed, and what led nowhere was no call", async () => {
  const readOutbox = () => Promise.reject(new Error("down"));
  const metrics = createMetrics({
    ...nobody,
    store: () => ({ ...nobody.store(), readOutbox }),
    rpcs: ["SendOtp"],
  });
  metrics.turnedAway("STORE_UNAVAILABLE", { rpc: "SendOtp", isKnown: true });
  metrics.turnedAway("ROUTE_NOT_FOUND");
  const { value, samples } = parseExposition((await metrics.render()).body);
  expect(value("otp_calls_total", { rpc: "SendOtp", outcome: "failed" })).toBe(1);
  expect(value("otp_refusals_total", { rpc: "SendOtp", reason: "STORE_UNAVAILABLE" })).toBe(1);
  expect(value("otp_refusals_total", { rpc: "none", reason: "ROUTE_NOT_FOUND" })).toBe(1);
  expect(samples.filter(({ name }) => name === "otp_calls_total").map(({ value: calls }) => calls)).toEqual([
    0, 0, 0, 1, 0,
  ]);
  // A database that does not answer takes nothing away from the rest.
  expect([value("otp_outbox_depth"), value("otp_outbox_lag_seconds")]).toEqual([Number.NaN, Number.NaN]);
});

test("how long calls take has nothing of strangers' calls, nor of how long bodies take to come", async () => {
  const metrics = createMetrics({ ...nobody, rpcs: ["SendOtp"] });
  metrics.call({ rpc: "SendOtp", refusal: { reason: "API_KEY_MISSING" } }, 1);
  metrics.call(
    { rpc: "SendOtp", caller: { kind: "pub" }, refusal: { reason: "ORIGIN_NOT_ALLOWED" }, reached: false },
    1,
  );
  metrics.call({ rpc: "SendOtp", caller: { kind: "pub" }, bodyMs: 12_000 }, 12_500);
  const { value } = parseExposition((await metrics.render()).body);
  expect(["count", "sum"].map((part) => value(`otp_call_seconds_${part}`, { rpc: "SendOtp" }))).toEqual([1, 0.5]);
});

test("a crowd of unknown keys that finds no room has not failed", async () => {
  const metrics = createMetrics({ ...nobody, rpcs: ["SendOtp"] });
  metrics.turnedAway("STORE_UNAVAILABLE", { rpc: "SendOtp", isKnown: false });
  const { value } = parseExposition((await metrics.render()).body);
  expect(callOutcomes.map((outcome) => value("otp_calls_total", { rpc: "SendOtp", outcome }))).toEqual([0, 0, 1, 0, 0]);
  expect(value("otp_refusals_total", { rpc: "SendOtp", reason: "STORE_UNAVAILABLE" })).toBe(1);
});

test("a look at the database that takes long is not begun again meanwhile", async () => {
  const given = Promise.withResolvers<{ depth: number; lagMs: number }>();
  let begun = 0;
  const readOutbox = () => {
    begun += 1;
    return given.promise;
  };
  const system = createManualSystem();
  const metrics = createMetrics({ ...nobody, system, store: () => ({ ...nobody.store(), readOutbox }) });
  for (let i = 0; i < 3; i += 1) {
    const rendered = metrics.render();
    system.advance(1_000);
    await rendered;
  }
  expect(begun).toBe(1);
  given.resolve({ depth: 3, lagMs: 0 });
  await given.promise;
  const { value } = parseExposition((await metrics.render()).body);
  expect([begun, value("otp_outbox_depth")]).toEqual([2, 3]);
});

describe("what is only looked at when asked", () => {
  test("the outbox shows what is not handed over yet", async () => {
    const [called, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<SendOutcome>()];
    world.network.script.push(() => {
      called.resolve();
      return answered.promise;
    });
    const sending = send("+31612345679");
    await called.promise;
    const waiting = await scrape(world.url);
    expect([waiting.value("otp_outbox_depth"), waiting.value("otp_outbox_lag_seconds")]).toEqual([1, 0]);
    answered.resolve({ kind: "accepted" });
    await sending;
    expect((await scrape(world.url)).value("otp_outbox_depth")).toBe(0);
  });

  test("what waits for endpoints shows, and what became of it", async () => {
    const metrics = createMetrics(nobody);
    metrics.eventTried("taken");
    metrics.eventTried("failed");
    metrics.eventTried("failed");
    metrics.eventsDropped(3);
    const { value } = parseExposition((await metrics.render()).body);
    expect([value("otp_events_waiting"), value("otp_events_lag_seconds")]).toEqual([7, 1.5]);
    const results = ["taken", "failed", "gone"].map((result) => value("otp_event_deliveries_total", { result }));
    expect([...results, value("otp_events_dropped_total")]).toEqual([1, 2, 0, 3]);
  });

  test("an open breaker shows, and a closed one", async () => {
    const [open, closed] = [false, true].map((isClosed) => ({
      name: `closed ${isClosed}`,
      channel: "sms" as const,
      isClosed: () => isClosed,
    }));
    const metrics = createMetrics({ ...nobody, providers: [open, closed].flatMap((each) => each ?? []) });
    const { value } = parseExposition((await metrics.render()).body);
    expect(value("otp_provider_breaker_open", { provider: "closed false", channel: "sms" })).toBe(1);
    expect(value("otp_provider_breaker_open", { provider: "closed true", channel: "sms" })).toBe(0);
  });
});

describe("who may read it", () => {
  const read = (headers: Record<string, string> = {}) => fetch(`${world.url}/metrics`, { headers });

  test("this machine by default, whatever its headers say, and without a key", async () => {
    for (const headers of [{}, { "x-forwarded-for": "192.0.2.7" }]) {
      const response = await read(headers);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
      expect(response.headers.get("cache-control")).toBe("no-store");
      expect(parseExposition(await response.text()).types.get("otp_sends_total")).toBe("counter");
    }
  });

  test("HEAD has the headers alone, and other methods are told so", async () => {
    const head = await fetch(`${world.url}/metrics`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(Number(head.headers.get("content-length"))).toBeGreaterThan(1_000);
    const post = await fetch(`${world.url}/metrics`, { method: "POST", body: "{}" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("nobody when it is off", async () => {
    await world.restart({ OTP_METRICS: "off" });
    const response = await read();
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ reason: "ROUTE_NOT_FOUND" });
    expect((await send(dutch[0])).value).toBeDefined();
  });
});
