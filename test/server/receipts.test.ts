/**
 * Receipts over every surface: what `VerifyOtp` hands out is checked as a backend does it, with the keys that the running
 * service publishes; and what a code was sent for has to be said again.
 */
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectRefusal } from "../support/data/contract.ts";
import { rowOf } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

const issuer = "https://otp.example.com";
const path = "/.well-known/jwks.json";
let world: World;
let testKey: string;
beforeAll(async () => {
  world = await startWorld({ OTP_PUBLIC_URL: `${issuer}/` });
  testKey = (await world.makeKey({ kind: "test" })).text;
});
afterAll(() => world.stop());

/** Reads a receipt with the keys that are published now. */
function read(receipt: unknown) {
  return jwtVerify(String(receipt), createRemoteJWKSet(new URL(path, world.url)), {
    algorithms: ["EdDSA"],
    issuer,
    audience: "default",
    currentDate: new Date(world.system.now()),
  });
}

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, idempotencyKey?: string, key = world.key) =>
    surface.call(world.url, rpc, message, {
      key,
      headers: idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey },
    });
  async function send(more: Message = {}) {
    const phone = newPhone();
    const { value } = await call("SendOtp", { phone, ...more });
    return { phone, request_id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
  }

  test("a verify hands out a receipt that the published keys vouch for", async () => {
    const bind = { amount: "10", payee: "Ann" };
    const { phone, ...verify } = await send({ purpose: "payment", bind });
    world.system.advance(1_500);
    const { value } = await call("VerifyOtp", { ...verify, purpose: "payment", bind });
    const iat = Math.floor(world.system.now() / 1000);
    const { payload } = await read(value?.["receipt"]);
    const { request_id: id } = verify;
    const who = { iss: issuer, aud: "default", sub: id, phone, channels: ["sms"] };
    expect(payload).toEqual({ ...who, purpose: "payment", bind, iat, exp: iat + 300, jti: id });
    world.system.advance(301_000);
    await expect(read(value?.["receipt"])).rejects.toThrow('"exp" claim timestamp check failed');
  });

  test("a test key's receipt says so, under a key of its own, to the audience of the real tenant", async () => {
    const { value } = await call("SendOtp", { phone: "+14155550100" }, undefined, testKey);
    const verify = { request_id: String(value?.["request_id"]), code: "123456" };
    const verified = await call("VerifyOtp", verify, undefined, testKey);
    expect((await read(verified.value?.["receipt"])).payload).toMatchObject({ test: true, phone: "+14155550100" });
    const { phone: _, ...live } = await send();
    const real = (await call("VerifyOtp", live)).value?.["receipt"];
    expect(decodeJwt(String(real))).not.toHaveProperty("test");
    const kidOf = (receipt: unknown) => decodeProtectedHeader(String(receipt)).kid;
    expect(kidOf(verified.value?.["receipt"])).not.toBe(kidOf(real));
  });

  test("a repeat by Idempotency-Key answers the same receipt, byte for byte", async () => {
    const { phone: _, ...verify } = await send({ purpose: "login" });
    const message = { ...verify, purpose: "login" };
    const key = `receipt-${surface.name.replaceAll(" ", "-")}`;
    const first = await call("VerifyOtp", message, key);
    world.system.advance(60_000);
    const again = await call("VerifyOtp", message, key);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(again.value).toEqual(first.value);
  });

  test("another purpose or binding than at send is refused, and spends no attempt", async () => {
    const given = { purpose: "payment", bind: { amount: "10", payee: "Ann" } };
    const { phone: _, ...verify } = await send(given);
    const plain = await send();
    const wrong: [Message, string][] = [
      [{ ...verify }, "purpose"],
      [{ ...verify, ...given, purpose: "login" }, "purpose"],
      [{ ...verify, ...given, purpose: "" }, "purpose"],
      [{ ...verify, purpose: "payment" }, "bind"],
      [{ ...verify, ...given, bind: { amount: "11", payee: "Ann" } }, "bind"],
      [{ ...verify, ...given, bind: { amount: "10" } }, "bind"],
      [{ ...verify, ...given, bind: { ...given.bind, more: "" } }, "bind"],
      [{ request_id: plain.request_id, code: plain.code, purpose: "login" }, "purpose"],
      [{ request_id: plain.request_id, code: plain.code, bind: { amount: "10" } }, "bind"],
    ];
    for (const [message, field] of wrong) {
      expectRefusal(await call("VerifyOtp", message), "PURPOSE_MISMATCH", { field });
    }
    for (const id of [verify.request_id, plain.request_id]) expect((await rowOf(world.database, id)).attempts).toBe(0);
    const reordered = { payee: "Ann", amount: "10" };
    const verified = await call("VerifyOtp", { ...verify, ...given, bind: reordered });
    expect(decodeJwt(String(verified.value?.["receipt"]))).toMatchObject(given);
  });
});

test("a receipt outlives a rotation of the master key, and a repeat of its call is still the same", async () => {
  const [rest] = surfaces;
  const call = (rpc: Rpc, message: Message) =>
    rest?.call(world.url, rpc, message, { key: world.key, headers: { "idempotency-key": `rotation-${rpc}` } });
  const phone = newPhone();
  const sent = await call("SendOtp", { phone });
  const verify = { request_id: String(sent?.value?.["request_id"]), code: world.network.codeFor(phone) };
  const before = String((await call("VerifyOtp", verify))?.value?.["receipt"]);
  const keys = [9, 7].map((byte) => Buffer.alloc(32, byte).toString("base64url"));
  await world.restart({ OTP_MASTER_KEY: keys.join(",") });
  expect((await call("VerifyOtp", verify))?.value?.["receipt"]).toBe(before);
  expect((await read(before)).payload).toMatchObject({ phone });

  const next = await rest?.call(world.url, "SendOtp", { phone }, { key: world.key });
  const options = { key: world.key };
  const message = { request_id: String(next?.value?.["request_id"]), code: world.network.codeFor(phone) };
  const after = String((await rest?.call(world.url, "VerifyOtp", message, options))?.value?.["receipt"]);
  expect((await read(after)).payload).toMatchObject({ phone });
  expect(decodeProtectedHeader(after).kid).not.toBe(decodeProtectedHeader(before).kid);
  const { keys: published } = (await (await fetch(world.url + path)).json()) as { keys: unknown[] };
  expect(published).toHaveLength(4);
});

test("without a public URL the issuer is otpd", async () => {
  const plain = await startWorld();
  try {
    const [rest] = surfaces;
    const phone = newPhone();
    const sent = await rest?.call(plain.url, "SendOtp", { phone }, { key: plain.key });
    const verify = { request_id: String(sent?.value?.["request_id"]), code: plain.network.codeFor(phone) };
    const verified = await rest?.call(plain.url, "VerifyOtp", verify, { key: plain.key });
    expect(decodeJwt(String(verified?.value?.["receipt"]))).toMatchObject({ iss: "otpd", aud: "default" });
  } finally {
    await plain.stop();
  }
});

describe.each([
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
])("the published keys, over %s", (_, ask) => {
  test("are for anybody, from any page, and may be kept for 5 minutes", async () => {
    const { status, headers, text } = await ask(world.url, { method: "GET", path: `${path}?v=1` });
    expect(status).toBe(200);
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-type": "application/json",
      "cache-control": "public, max-age=300",
      "access-control-allow-origin": "*",
      "content-length": `${text.length}`,
    });
    const [first] = (JSON.parse(text) as { keys: object[] }).keys;
    expect(first).toMatchObject({ kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig" });
    expect(text).not.toContain('"d"');
  });

  test("are answered to HEAD without a body, and to nothing else", async () => {
    const whole = await ask(world.url, { method: "GET", path });
    const head = await ask(world.url, { method: "HEAD", path });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(`${whole.text.length}`);
    expect(head.headers.get("cache-control")).toBe("public, max-age=300");
    const posted = await ask(world.url, { method: "POST", path, body: "{}" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect((await ask(world.url, { method: "GET", path: `${path}x` })).status).toBe(404);
  });
});
