/**
 * The pumping guard through the server: what callers are told, who is exempt, what counts, and what is left of it after a
 * restart. Time is the test's; what has expired is noted by a late call, since the upkeep waits in real time.
 */
import { afterEach, describe, expect, test } from "vitest";
import { publishableScopes } from "../../src/otp/keys/api-key.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { parseExposition } from "../support/readers/exposition.ts";
import { startWorld, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];
const hour = 3_600_000;
const ttlMs = 600_000;

let world: World;
let last = 0;
afterEach(() => world.stop());

const call = (rpc: Rpc, message: Message): Promise<Outcome> => rest.call(world.url, rpc, message, { key: world.key });
/** A number of the one prefix, each its own. */
const nextPhone = () => `+3161234${String((last = (last + 1) % 10_000)).padStart(4, "0")}`;

async function send(more: Message = {}) {
  const phone = nextPhone();
  const answer = await call("SendOtp", { phone, ...more });
  return { phone, reason: answer.reason, id: String(answer.value?.["request_id"]), answer };
}

/** Makes a page's key; gives what sends with it. */
async function startPage() {
  const [origin, scopes] = ["https://shop.example", ["send", ...publishableScopes] as const];
  const { text: key } = await world.makeKey({ kind: "pub", scopes: [...scopes], origins: [origin] });
  return (phone = nextPhone()) => rest.call(world.url, "SendOtp", { phone }, { key, headers: { origin } });
}

type Sent = Awaited<ReturnType<typeof send>>;
const verify = ({ id, phone }: Sent) => call("VerifyOtp", { request_id: id, code: world.network.codeFor(phone) });
const cancel = ({ id }: Sent) => call("CancelOtp", { request_id: id });

async function start(mode: "observe" | "enforce", env: Record<string, string> = {}): Promise<void> {
  world = await startWorld({ OTP_FRAUD_GUARD: mode, ...env });
}

/** Sends 30 a minute apart, of which the first few are verified and the others come to nothing. */
async function block(verified: number): Promise<void> {
  for (let i = 0; i < 30; i++) {
    const sent = await send();
    expect(sent.reason).toBeUndefined();
    await (i < verified ? verify(sent) : cancel(sent));
    world.system.advance(60_000);
  }
}

const trips = () => world.observed.filter(({ event }) => event === "tripped").map((observed) => observed.with[0]);

async function known() {
  const store = await openSqlite({ path: world.databasePath, system: world.system, exclusive: false });
  const view = await store.readPrefix({ tenant: "default", prefix: "+3161234" });
  await store.close();
  return view;
}

const decisions = async () => ((await known())?.decisions ?? []).map(({ kind }) => kind).toReversed();

describe("a prefix whose codes nobody types, under OTP_FRAUD_GUARD=enforce", () => {
  test("is DESTINATION_BLOCKED after 30 sends, told once to operators, while what was admitted verifies", async () => {
    await start("enforce");
    const early = await send();
    world.system.advance(60_000);
    await block(3);
    // 31 were sent, and the block's 30th outcome is the one that the first still owes.
    expect(trips()).toEqual([]);
    const late = await send();
    expect((await verify(early)).reason).toBe("OTP_EXPIRED");
    expect(trips()).toEqual([
      {
        tenant: "default",
        prefix: "+3161234",
        decision: expect.objectContaining({ kind: "tripped", ended: 30, verified: 3, enforced: true }) as object,
      },
    ]);
    const { answer } = await send();
    expect(answer).toMatchObject({ reason: "DESTINATION_BLOCKED", field: "phone" });
    expect((await verify(late)).reason).toBeUndefined();
    expect((await call("SendOtp", { phone: "+31612350001" })).reason).toBeUndefined();
    expect((await call("SendOtp", { phone: nextPhone(), known_user: true })).reason).toBeUndefined();
  });

  test("lets exactly 3 probes through after its hour, of sixty at once, and opens when one is verified", async () => {
    await start("enforce");
    await block(0);
    expect(await Promise.all([send(), send()])).toMatchObject([
      { reason: "DESTINATION_BLOCKED" },
      { reason: "DESTINATION_BLOCKED" },
    ]);
    world.system.advance(hour);
    const sends = await Promise.all(Array.from({ length: 60 }, () => send()));
    const probes = sends.filter(({ reason }) => reason === undefined);
    expect(probes).toHaveLength(3);
    expect(sends.filter(({ reason }) => reason === "DESTINATION_BLOCKED")).toHaveLength(57);
    world.system.advance(30_000);
    expect((await call("ResendOtp", { request_id: probes[0]?.id ?? "" })).reason).toBe("DESTINATION_BLOCKED");
    for (const probe of probes.slice(0, 1)) expect((await verify(probe)).value).toBeDefined();
    expect((await send()).reason).toBeUndefined();
    expect(await decisions()).toEqual(["tripped", "half-opened", "closed"]);
  });

  test("stays blocked across a restart, and is told of once more only when its probes fail", async () => {
    await start("enforce");
    await block(0);
    await world.restart();
    expect((await send()).reason).toBe("DESTINATION_BLOCKED");
    world.system.advance(hour);
    const probes = [await send(), await send(), await send()];
    await world.restart();
    for (const probe of probes) await cancel(probe);
    expect((await send()).reason).toBe("DESTINATION_BLOCKED");
    expect(trips()).toHaveLength(2);
    world.system.advance(2 * hour - 60_000);
    expect((await send()).reason).toBe("DESTINATION_BLOCKED");
    world.system.advance(60_000);
    expect((await send()).reason).toBeUndefined();
  });

  test("is limited to ten at once before it has proven itself, with the time to wait; a resend costs as much", async () => {
    await start("enforce");
    const sends = await Promise.all(Array.from({ length: 25 }, () => send()));
    expect(sends.filter(({ reason }) => reason === undefined)).toHaveLength(10);
    const limited = sends.filter(({ reason }) => reason === "PHONE_RATE_LIMITED");
    expect(limited).toHaveLength(15);
    const message = expect.stringContaining("numbers that begin as this phone's does") as string;
    expect(limited[0]?.answer).toMatchObject({ field: "phone", retryAfterSeconds: 60, message });
    const first = sends.find(({ reason }) => reason === undefined);
    world.system.advance(30_000);
    expect((await call("ResendOtp", { request_id: first?.id ?? "" })).reason).toBe("PHONE_RATE_LIMITED");
    world.system.advance(30_000);
    expect((await call("ResendOtp", { request_id: first?.id ?? "" })).reason).toBeUndefined();
    expect((await send()).reason).toBe("PHONE_RATE_LIMITED");
  });

  test("counts of what it refused no more than the address could have sent without it", async () => {
    await start("enforce");
    const ask = await startPage();
    await Promise.all(Array.from({ length: 10 }, () => send()));
    const asked = await Promise.all(Array.from({ length: 30 }, () => ask()));
    // Each could have been the one that the guard lets, so none has cost the address its place.
    expect(asked.map(({ reason }) => reason)).toEqual(Array(30).fill("PHONE_RATE_LIMITED"));
    expect((await known())?.record.refused).toBe(10);
    world.system.advance(30_000);
    await ask();
    expect((await known())?.record.refused).toBe(10);
    world.system.advance(30_000);
    expect((await ask()).reason).toBeUndefined();
  });

  test("tells of another prefix's limit all the same", async () => {
    await start("enforce");
    const ask = await startPage();
    const ofDecoy = () => `+3161999${nextPhone().slice(-4)}`;
    await Promise.all(Array.from({ length: 10 }, () => call("SendOtp", { phone: ofDecoy() })));
    await Promise.all(Array.from({ length: 10 }, () => ask(ofDecoy())));
    await Promise.all(Array.from({ length: 10 }, () => send()));
    for (let i = 0; i < 3; i += 1) expect((await ask()).reason).toBe("PHONE_RATE_LIMITED");
    expect(await decisions()).toEqual(["limited"]);
    expect((await known())?.record.refused).toBe(1);
  });

  test("spends nothing where another limit refuses, nor the phone's limits where it refuses", async () => {
    await start("enforce", { OTP_PHONE_LIMITS: "1@10m" });
    const phone = nextPhone();
    for (let i = 0; i < 12; i++) await call("SendOtp", { phone });
    const others = await Promise.all(Array.from({ length: 9 }, () => send()));
    expect(others.map(({ reason }) => reason)).toEqual(Array(9).fill(undefined));
    const refused = await send();
    expect(refused.reason).toBe("PHONE_RATE_LIMITED");
    world.system.advance(60_000);
    expect((await call("SendOtp", { phone: refused.phone })).reason).toBeUndefined();
  });

  test("is not judged in a sandbox", async () => {
    await start("enforce");
    await block(0);
    const sandbox = await world.makeKey({ kind: "test" });
    for (let i = 0; i < 12; i++) {
      const answer = await rest.call(world.url, "SendOtp", { phone: "+14155550100" }, { key: sandbox.text });
      expect(answer.reason).toBeUndefined();
    }
    expect((await send()).reason).toBe("DESTINATION_BLOCKED");
  });
});

describe("a prefix whose codes nobody types, under OTP_FRAUD_GUARD=observe", () => {
  test("is refused nothing, and all is decided as it would have been", async () => {
    await start("observe");
    await block(0);
    expect(trips()).toMatchObject([{ decision: { kind: "tripped", enforced: false } }]);
    // None of these would have been sent, so none of their outcomes counts.
    const unseen = await Promise.all(Array.from({ length: 20 }, () => send()));
    expect(unseen.map(({ reason }) => reason)).toEqual(Array(20).fill(undefined));
    for (const sent of unseen) expect((await verify(sent)).reason).toBeUndefined();
    expect(await decisions()).toEqual(["tripped"]);
    world.system.advance(hour);
    const later = [];
    for (let i = 0; i < 6; i++) later.push(await send());
    expect(later.map(({ reason }) => reason)).toEqual(Array(6).fill(undefined));
    for (const sent of later.slice(3)) await verify(sent);
    expect(await decisions()).toEqual(["tripped", "half-opened"]);
    for (const sent of later.slice(0, 3)) await cancel(sent);
    expect(await decisions()).toEqual(["tripped", "half-opened", "tripped-again"]);
    expect(trips()).toHaveLength(2);
  });

  test("is told of when more is sent than it takes before codes are typed: once, by a line and a metric", async () => {
    await start("observe");
    for (let i = 0; i < 14; i++) expect((await send()).reason).toBeUndefined();
    const told = world.observed.filter(({ event }) => event === "prefixLimited").map((observed) => observed.with[0]);
    const decision = { kind: "limited", ended: 0, verified: 0, refused: 1, untilMs: null, enforced: false };
    expect(told).toMatchObject([{ tenant: "default", prefix: "+3161234", decision }]);
    expect(trips()).toEqual([]);
    expect(await decisions()).toEqual(["limited"]);
    const { value } = parseExposition(await (await fetch(`${world.url}/metrics`)).text());
    expect(value("otp_prefix_limits_total", { enforced: "no" })).toBe(1);
    expect(value("otp_prefix_limits_total", { enforced: "yes" })).toBe(0);
  });

  test("has what expired counted by the sweep of the running service", async () => {
    await start("observe");
    for (let i = 0; i < 10; i++) await send();
    world.system.advance(ttlMs);
    for (let i = 0; i < 10; i++) await send();
    world.system.advance(ttlMs);
    for (let i = 0; i < 10; i++) await send();
    world.system.advance(ttlMs);
    // A start begins with a sweep.
    await world.restart();
    await expect.poll(decisions).toEqual(["tripped"]);
    expect(trips()).toHaveLength(1);
  });
});
