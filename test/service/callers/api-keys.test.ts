/**
 * Authentication, as against whoever tries keys: what reaches the database, what counts for an address, and whom it never
 * counts against.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeApiKey, secretScopes, type KeyKind } from "../../../src/otp/keys/api-key.ts";
import { createAuthenticate, issueKey } from "../../../src/service/callers/api-keys.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { StoreUnavailable, type Store } from "../../../src/store/store.ts";
import { withChecksum } from "../../support/service/keys.ts";
import { createManualSystem, type ManualSystem } from "../../support/service/system.ts";
import { temporaryFolder } from "../../support/service/world.ts";

let folder: string;
let system: ManualSystem;
let store: Store;
let reads: number;
let isDown: boolean;
let touches: number;
let faults: number;
/** Whether the database takes no writes. */
let isReadOnly: boolean;
let authenticate: ReturnType<typeof createAuthenticate>["authenticate"];
let wasValid: ReturnType<typeof createAuthenticate>["wasValid"];
beforeEach(async () => {
  folder = temporaryFolder();
  system = createManualSystem();
  store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
  reads = 0;
  isDown = false;
  [touches, faults, isReadOnly] = [0, 0, false];
  const { registry } = store;
  const findApiKey: typeof registry.findApiKey = (id) => {
    reads += 1;
    return isDown ? Promise.reject(new StoreUnavailable("down")) : registry.findApiKey(id);
  };
  const touchApiKey: typeof registry.touchApiKey = (id, now) => {
    touches += 1;
    return isReadOnly ? Promise.reject(new StoreUnavailable("full")) : registry.touchApiKey(id, now);
  };
  ({ authenticate, wasValid } = createAuthenticate({
    store: { now: () => store.now(), registry: { ...registry, findApiKey, touchApiKey } },
    failureLimit: { burst: 60, intervalMs: 1_000 },
    isShared: ({ text }) => text === balancer,
    onFault: (error) => (isReadOnly ? (faults += 1) : expect.unreachable(String(error))),
  }));
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

async function makeKey(kind: KeyKind = "live"): Promise<{ id: string; text: string }> {
  const options = { kind, tenant: "default", name: "", scopes: secretScopes, expireMs: null, isApp: true };
  const { key, text } = await issueKey(store, system, options);
  return { id: key.id, text: text.reveal() };
}

/** A key with a right checksum that nobody has made. */
const stranger = (kind: KeyKind = "live") => makeApiKey(kind, system.randomBytes(128)).text.reveal();

const attacker = "203.0.113.9";
/** An address that stands for many callers. */
const balancer = "203.0.113.99";
async function ask(key: string | undefined, address = attacker): Promise<string> {
  const judged = await authenticate(key === undefined ? undefined : `Bearer ${key}`, () => ({
    name: address,
    text: address,
  }));
  return judged.ok ? "ok" : judged.refusal.reason;
}

async function exhaust(address = attacker): Promise<void> {
  for (let i = 0; i < 60; i++) expect(await ask(stranger(), address)).toBe("API_KEY_INVALID");
  expect(await ask(stranger(), address)).toBe("IP_RATE_LIMITED");
}

test("a malformed key, or one with a wrong checksum, reaches no database, and counts", async () => {
  const { text } = await makeKey();
  const typos = ["nonsense", text.slice(0, -1), `${text.slice(0, -1)}${text.endsWith("0") ? "1" : "0"}`];
  for (let i = 0; i < 60; i++) expect(await ask(typos[i % 3])).toBe("API_KEY_INVALID");
  expect(await ask(typos[0])).toBe("IP_RATE_LIMITED");
  expect(await ask(stranger())).toBe("IP_RATE_LIMITED");
  expect(reads).toBe(0);
});

test("of 1,000 keys tried at once from one address 60 are looked for, and then one a second", async () => {
  const outcomes = await Promise.all(Array.from({ length: 1_000 }, () => ask(stranger())));
  expect([reads, outcomes.filter((outcome) => outcome === "API_KEY_INVALID").length]).toEqual([60, 60]);
  expect(await authenticate(`Bearer ${stranger()}`, () => ({ name: attacker, text: attacker }))).toEqual({
    ok: false,
    refusal: { reason: "IP_RATE_LIMITED", retryAfterMs: 1_000 },
  });
  system.advance(1_000);
  expect([await ask(stranger()), await ask(stranger())]).toEqual(["API_KEY_INVALID", "IP_RATE_LIMITED"]);
  expect(await ask(stranger(), "203.0.113.10")).toBe("API_KEY_INVALID");
});

test("a key seen valid goes on working beside it, for five minutes after it was last seen", async () => {
  const { text } = await makeKey();
  expect(await ask(text)).toBe("ok");
  await exhaust();
  for (let i = 0; i < 100; i++) expect(await ask(text)).toBe("ok");
  system.advance(200_000);
  expect(await ask(text)).toBe("ok");
  system.advance(299_999);
  await exhaust();
  expect(await ask(text)).toBe("ok");
  system.advance(300_000);
  await exhaust();
  expect(await ask(text)).toBe("IP_RATE_LIMITED");
  system.advance(1_000);
  expect(await ask(text)).toBe("ok");
});

test("a secret key is known without a look for five minutes after it was valid, and no other is", async () => {
  const [{ id, text }, { text: ofPage }] = [await makeKey(), await makeKey("pub")];
  const isKnown = (key: string) => wasValid(`Bearer ${key}`);
  expect(isKnown(text)).toBe(false);
  const wrong = stranger();
  expect([await ask(text), await ask(ofPage), await ask(wrong)]).toEqual(["ok", "ok", "API_KEY_INVALID"]);
  const readsBefore = reads;
  expect([text, ofPage, wrong, "nonsense"].map(isKnown)).toEqual([true, false, false, false]);
  expect([wasValid(undefined), wasValid(text)]).toEqual([false, false]);
  system.advance(299_999);
  expect(isKnown(text)).toBe(true);
  system.advance(1);
  expect(isKnown(text)).toBe(false);
  expect(reads).toBe(readsBefore);
  expect([await ask(text), isKnown(text)]).toEqual(["ok", true]);
  await store.registry.revokeApiKey(id, store.now());
  expect([await ask(text), isKnown(text)]).toEqual(["API_KEY_REVOKED", false]);
});

test("wrong keys keep no right one out of an address that many share, and are limited there as well", async () => {
  const [{ text }, { text: atOnce }] = [await makeKey(), await makeKey()];
  await exhaust(balancer);
  expect(await ask(text, balancer)).toBe("ok");
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => ask(atOnce, balancer)));
  expect(new Set(outcomes)).toEqual(new Set(["ok"]));
  const readsBefore = reads;
  expect(await ask("nonsense", balancer)).toBe("IP_RATE_LIMITED");
  expect(reads).toBe(readsBefore);
  expect(await ask(stranger(), balancer)).toBe("IP_RATE_LIMITED");
  expect(reads).toBe(readsBefore + 1);
});

test("a right key spends nothing, and neither does a call without one", async () => {
  const keys = await Promise.all(Array.from({ length: 100 }, makeKey));
  for (const { text } of keys) expect(await ask(text)).toBe("ok");
  for (let i = 0; i < 100; i++) expect(await ask(undefined)).toBe("API_KEY_MISSING");
  await exhaust();
});

test("the first calls of a busy backend, all at once, are all let in", async () => {
  const { text } = await makeKey();
  const outcomes = await Promise.all(Array.from({ length: 200 }, () => ask(text)));
  expect(new Set(outcomes)).toEqual(new Set(["ok"]));
});

test("one wrong key tried many times at once counts each time", async () => {
  const key = stranger();
  await Promise.all(Array.from({ length: 60 }, () => ask(key)));
  expect(await ask(stranger())).toBe("IP_RATE_LIMITED");
});

test("a key that was seen valid is refused at once when revoked or expired, and then counts", async () => {
  const { id, text } = await makeKey();
  expect(await ask(text)).toBe("ok");
  const beside = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: false });
  await beside.registry.revokeApiKey(id, system.now());
  await beside.close();
  for (let i = 0; i < 60; i++) expect(await ask(text)).toBe("API_KEY_REVOKED");
  expect(await ask(text)).toBe("IP_RATE_LIMITED");
});

/** Somebody else's key: another id before the same secret, and the right checksum. */
function forged(key: string): string {
  const secret = key.slice(-38, -6);
  const stem = `${key.slice(0, key.indexOf("_", 4))}_0123456789_${secret}`;
  return withChecksum(stem);
}

test("a page's secret behind another id has nobody refused who has the page's key", async () => {
  const { text } = await makeKey("pub");
  expect(await ask(text)).toBe("ok");
  await exhaust();
  system.advance(1_000);
  expect(await ask(forged(text))).toBe("API_KEY_INVALID");
  expect([await ask(text), await ask(text)]).toEqual(["ok", "ok"]);
});

test("of 1,000 ids with one secret, tried at once from one address, 60 are looked for", async () => {
  const secret = stranger().slice(-38, -6);
  const ids = Array.from({ length: 1_000 }, (_, i) => String(i).padStart(10, "0"));
  const outcomes = await Promise.all(ids.map((id) => ask(withChecksum(`otp_live_${id}_${secret}`))));
  expect([reads, outcomes.filter((outcome) => outcome === "API_KEY_INVALID").length]).toEqual([60, 60]);
});

test("while the database takes no writes a key's use is noted in vain once a minute, and it works", async () => {
  const { text } = await makeKey();
  isReadOnly = true;
  for (let i = 0; i < 50; i++) expect(await ask(text)).toBe("ok");
  expect([touches, faults]).toEqual([1, 1]);
  system.advance(60_000);
  for (let i = 0; i < 50; i++) expect(await ask(text)).toBe("ok");
  expect([touches, faults]).toEqual([2, 2]);
  isReadOnly = false;
  system.advance(60_000);
  expect([await ask(text), await ask(text)]).toEqual(["ok", "ok"]);
  expect(touches).toBe(3);
});

test("a database that is down is no fault of the key's", async () => {
  const { text } = await makeKey();
  isDown = true;
  for (let i = 0; i < 100; i++) await expect(ask(text)).rejects.toThrow(StoreUnavailable);
  isDown = false;
  expect(await ask(text)).toBe("ok");
});

test("a key that was valid stays known for as long as it is asked for and cannot be looked up", async () => {
  const [{ text }, { text: unseen }] = [await makeKey(), await makeKey()];
  expect(await ask(text)).toBe("ok");
  isDown = true;
  for (let minute = 0; minute < 20; minute += 1) {
    system.advance(60_000);
    for (const key of [text, unseen]) await expect(ask(key)).rejects.toThrow("down");
  }
  expect([text, unseen].map((key) => wasValid(`Bearer ${key}`))).toEqual([true, false]);
});

test("a key whose header is remembered is looked up at each call, and refused at once when it was revoked", async () => {
  const { id, text } = await makeKey();
  for (let i = 0; i < 3; i++) expect(await ask(text)).toBe("ok");
  expect(reads).toBe(3);
  await store.registry.revokeApiKey(id, store.now());
  expect([await ask(text), await ask(text)]).toEqual(["API_KEY_REVOKED", "API_KEY_REVOKED"]);
  expect(wasValid(`Bearer ${text}`)).toBe(false);
});

test("a key is the same one however its header is written, and another's is another", async () => {
  const [{ text }, { text: other }] = [await makeKey(), await makeKey()];
  const spellings = [`Bearer ${text}`, `bearer ${text}`, `Bearer \t ${text} `, `Bearer ${" ".repeat(200)}${text}`];
  const caller = () => ({ name: attacker, text: attacker });
  for (const header of [...spellings, ...spellings, ...spellings]) {
    expect(await authenticate(header, caller)).toMatchObject({ ok: true });
    expect(wasValid(header)).toBe(true);
  }
  expect(wasValid(`Bearer ${other}`)).toBe(false);
  const [first, second] = [await authenticate(`Bearer ${text}`, caller), await authenticate(`Bearer ${other}`, caller)];
  expect(first.ok && second.ok && first.value.id !== second.value.id).toBe(true);
});
