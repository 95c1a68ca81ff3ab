/**
 * Rotating the master key as docs/operate.md tells it: two restarts while callers send and verify. Nothing that was begun
 * under the old key is lost, and nothing that it had counted begins anew.
 */
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newPhone } from "../support/data/phones.ts";
import { startWorld, type World } from "../support/service/world.ts";

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString("base64url");
const [oldKey, newKey] = [keyOf(7), keyOf(9)];

let world: World;
beforeAll(async () => {
  world = await startWorld({ OTP_MASTER_KEY: oldKey, OTP_PHONE_LIMITS: "5@10m,6@4h" });
});
afterAll(() => world.stop());

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

async function call(act: string, body: Record<string, unknown>, key = world.key): Promise<Answer> {
  const response = await fetch(`${world.url}/v1/otp/${act}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}

async function send(phone = newPhone()) {
  const { status, body } = await call("send", { phone });
  expect({ status, reason: body["reason"] }).toEqual({ status: 200 });
  return { request_id: String(body["request_id"]), code: world.network.codeFor(phone) };
}

const reasonOf = async (act: string, body: Record<string, unknown>, key?: string) =>
  (await call(act, body, key)).body["reason"];

/** The published keys that a backend has fetched. */
const published = async () => {
  const response = await fetch(`${world.url}/.well-known/jwks.json`);
  return createLocalJWKSet((await response.json()) as JSONWebKeySet);
};
const receiptOf = async (verify: { request_id: string; code: string }) =>
  String((await call("verify", verify)).body["receipt"]);
const reads = async (receipt: string, keys: Awaited<ReturnType<typeof published>>) =>
  (await jwtVerify(receipt, keys, { currentDate: new Date(world.system.now()) })).payload.sub;

/** Users who send and verify; one whose call is cut off by a restart begins anew once it is over. */
function startLoad(users: number) {
  const refused: Answer[] = [];
  const state = { stopping: false, verified: 0, restarting: Promise.resolve() };
  async function once() {
    const phone = newPhone();
    const sent = await call("send", { phone });
    if (sent.status !== 200) return sent;
    return call("verify", { request_id: sent.body["request_id"], code: world.network.codeFor(phone) });
  }
  async function use() {
    while (!state.stopping) {
      const answer = await once().catch(() => undefined);
      if (answer?.status === 200) state.verified += 1;
      else if (answer === undefined || answer.body["reason"] === "SHUTTING_DOWN") await state.restarting;
      else refused.push(answer);
    }
  }
  const over = Promise.all(Array.from({ length: users }, use));
  return {
    refused,
    verified: () => state.verified,
    async restart(keys: string[]) {
      state.restarting = world.restart({ OTP_MASTER_KEY: keys.join(",") });
      await state.restarting;
    },
    stop: () => ((state.stopping = true), over),
  };
}

test("rotation under load stops no key, resets no limit, and loses no pending code and no receipt", async () => {
  const { text: publishable } = await world.makeKey({ kind: "pub", isApp: true });
  const { id: revokedId, text: revoked } = await world.makeKey();
  await world.revokeKey(revokedId);
  const pending = await send();
  const forPage = await send();
  const spent = newPhone();
  for (let i = 0; i < 5; i += 1) await send(spent);
  const guessed = await send();
  const wrong = { ...guessed, code: guessed.code === "000000" ? "000001" : "000000" };
  for (let i = 0; i < 4; i += 1) expect(await reasonOf("verify", wrong)).toBe("CODE_MISMATCH");
  const used = await send();
  const receipt = await receiptOf(used);

  const load = startLoad(4);
  await load.restart([oldKey, newKey]);
  const announced = await published();
  const underOld = await receiptOf(await send());
  const atRotation = load.verified();
  await load.restart([newKey, oldKey]);

  expect(await reasonOf("send", { phone: spent })).toBe("PHONE_RATE_LIMITED");
  expect(await reasonOf("verify", wrong)).toBe("CODE_MISMATCH");
  expect(await reasonOf("verify", guessed)).toBe("OTP_LOCKED");
  expect(await reasonOf("verify", used)).toBe("OTP_ALREADY_VERIFIED");
  expect((await call("verify", pending)).status).toBe(200);
  expect((await call("verify", forPage, publishable)).status).toBe(200);
  expect(await reasonOf("send", { phone: newPhone() }, revoked)).toBe("API_KEY_REVOKED");

  const fresh = await send();
  const underNew = await receiptOf(fresh);
  expect(decodeProtectedHeader(underNew).kid).not.toBe(decodeProtectedHeader(receipt).kid);
  expect(decodeProtectedHeader(underOld).kid).toBe(decodeProtectedHeader(receipt).kid);
  const now = await published();
  expect(await reads(receipt, now)).toBe(used.request_id);
  expect(await reads(underOld, now)).toEqual(expect.any(String));
  expect(await reads(underNew, now)).toBe(fresh.request_id);
  // A backend that fetched the list before the new key signed needs no other.
  expect(await reads(underNew, announced)).toBe(fresh.request_id);

  await load.stop();
  expect(load.refused).toEqual([]);
  expect(load.verified()).toBeGreaterThan(atRotation);
  await expect(world.restart({ OTP_MASTER_KEY: newKey })).rejects.toThrow(/master key/i);
  await world.restart({ OTP_MASTER_KEY: [newKey, oldKey].join(",") });
});

test("a key that is marked as leaked reads what it wrote, and nothing that it signed is good any more", async () => {
  await world.restart({ OTP_MASTER_KEY: [newKey, oldKey].join(",") });
  const [sent, spent] = [await send(), newPhone()];
  for (let i = 0; i < 5; i += 1) await send(spent);
  const forged = await receiptOf(await send());
  const latest = keyOf(11);
  await world.restart({ OTP_MASTER_KEY: [latest, `${newKey}:leaked`, oldKey].join(",") });

  const now = await published();
  await expect(reads(forged, now)).rejects.toThrow(/no applicable key/);
  expect(await reads(await receiptOf(sent), now)).toBe(sent.request_id);
  expect(await reasonOf("send", { phone: spent })).toBe("PHONE_RATE_LIMITED");
  await expect(world.restart({ OTP_MASTER_KEY: `${latest}:leaked,${newKey}` })).rejects.toThrow(/has not leaked/);
});
