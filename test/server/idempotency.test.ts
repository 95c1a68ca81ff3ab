/**
 * Idempotency-Key on every mutating RPC and every surface: a repeat answers the same and spends nothing.
 */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { bytesOf, countRows, rowOf } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { untilFirstByte } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

let keysMade = 0;
const newKey = () => `idem-${(keysMade += 1)}`;
const hourMs = 3_600_000;

/** An outcome as its caller sees it, but for what names the call itself. */
function shown({ headers, ...said }: Outcome): object {
  return { ...said, retryAfter: headers.get("retry-after") };
}
const isReplayed = ({ headers }: Outcome) => headers.get("idempotency-replayed") === "true";

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, idempotencyKey?: string, key = world.key) =>
    surface.call(world.url, rpc, message, {
      key,
      headers: idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey },
    });

  async function send(): Promise<{ phone: string; id: string; code: string }> {
    const phone = newPhone();
    const { value } = await call("SendOtp", { phone });
    return { phone, id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
  }
  const smsTo = (phone: string) => world.network.received.filter(({ to }) => to === phone).length;

  /** Calls, then repeats later; checks that the repeat is the same answer, marked, and returns the first. */
  async function twice(rpc: Rpc, message: Message): Promise<Outcome> {
    const key = newKey();
    const first = await call(rpc, message, key);
    world.system.advance(1_000);
    const second = await call(rpc, message, key);
    expect([isReplayed(first), isReplayed(second)]).toEqual([false, true]);
    expect(shown(second)).toEqual(shown(first));
    return first;
  }

  test("a repeated send texts once and opens one verification", async () => {
    const phone = newPhone();
    const before = await countRows(world.database, "verifications");
    expect((await twice("SendOtp", { phone })).value).toMatchObject({ expires_in_seconds: 600 });
    expect(smsTo(phone)).toBe(1);
    expect(await countRows(world.database, "verifications")).toBe(before + 1);
  });

  test("a repeated send that no provider would take for this number asks no provider again", async () => {
    world.network.script.push({ kind: "refused", cause: "recipient", detail: "unknown" });
    const phone = newPhone();
    expectRefusal(await twice("SendOtp", { phone }), "PHONE_UNREACHABLE", { field: "phone" });
    expect(smsTo(phone)).toBe(1);
  });

  test("a repeated wrong code spends one attempt", async () => {
    const { id, code } = await send();
    const outcome = await twice("VerifyOtp", { request_id: id, code: wrongCode(code) });
    expectRefusal(outcome, "CODE_MISMATCH", { field: "code", attemptsRemaining: 4 });
    expect((await rowOf(world.database, id)).attempts).toBe(1);
    expect((await call("VerifyOtp", { request_id: id, code })).value).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test("a repeated fifth wrong code still answers CODE_MISMATCH, and any other call OTP_LOCKED", async () => {
    const { id, code } = await send();
    for (let i = 1; i <= 4; i++) await call("VerifyOtp", { request_id: id, code: wrongCode(code, i) });
    const outcome = await twice("VerifyOtp", { request_id: id, code: wrongCode(code, 5) });
    expectRefusal(outcome, "CODE_MISMATCH", { field: "code", attemptsRemaining: 0 });
    expectRefusal(await call("VerifyOtp", { request_id: id, code }, newKey()), "OTP_LOCKED");
  });

  test("a repeated right code succeeds again, but only under its own key", async () => {
    const { id, phone, code } = await send();
    expect((await twice("VerifyOtp", { request_id: id, code })).value).toMatchObject({ phone });
    expectRefusal(await call("VerifyOtp", { request_id: id, code }), "OTP_ALREADY_VERIFIED");
    expectRefusal(await call("VerifyOtp", { request_id: id, code }, newKey()), "OTP_ALREADY_VERIFIED");
    expect((await rowOf(world.database, id)).attempts).toBe(1);
  });

  test("a repeated resend texts once and uses one resend", async () => {
    const { id, phone } = await send();
    world.system.advance(30_000);
    expect((await twice("ResendOtp", { request_id: id })).value).toMatchObject({ resends_remaining: 1 });
    expect(smsTo(phone)).toBe(2);
  });

  test("a repeated cancel answers the first time of canceling", async () => {
    const { id } = await send();
    expect((await twice("CancelOtp", { request_id: id })).value).toMatchObject({ state: "STATE_CANCELED" });
  });

  test("another body under the same key is refused, and does nothing", async () => {
    const { id, code } = await send();
    const key = newKey();
    await call("VerifyOtp", { request_id: id, code: wrongCode(code) }, key);
    expectRefusal(await call("VerifyOtp", { request_id: id, code }, key), "IDEMPOTENCY_KEY_REUSED");
    expect((await rowOf(world.database, id)).attempts).toBe(1);

    const [phone, other] = [newPhone(), newPhone()];
    const sendKey = newKey();
    await call("SendOtp", { phone }, sendKey);
    for (const body of [
      { phone: other },
      { phone, purpose: "login" },
      { phone, bind: { a: "b" } },
      { phone, locale: "nl" },
    ]) {
      expectRefusal(await call("SendOtp", body, sendKey), "IDEMPOTENCY_KEY_REUSED");
    }
    expect([smsTo(phone), smsTo(other)]).toEqual([1, 0]);
  });

  test("a key counts for one API key and one RPC alone", async () => {
    const { id } = await send();
    const key = newKey();
    world.system.advance(30_000);
    expect(isReplayed(await call("ResendOtp", { request_id: id }, key))).toBe(false);
    expect(isReplayed(await call("CancelOtp", { request_id: id }, key))).toBe(false);
    const { text: other } = await world.makeKey();
    const phone = newPhone();
    const first = await call("SendOtp", { phone }, key);
    const second = await call("SendOtp", { phone }, key, other);
    expect(second.value?.["request_id"]).not.toBe(first.value?.["request_id"]);
    expect([isReplayed(second), smsTo(phone)]).toEqual([false, 2]);
  });

  test("a key is kept for 24 hours, and is new to us from then on", async () => {
    const phone = newPhone();
    const key = newKey();
    const first = await call("SendOtp", { phone }, key);
    world.system.advance(24 * hourMs - 1);
    const replayed = await call("SendOtp", { phone }, key);
    expect([isReplayed(replayed), replayed.value]).toEqual([true, first.value]);
    world.system.advance(1);
    const fresh = await call("SendOtp", { phone }, key);
    expect([isReplayed(fresh), smsTo(phone)]).toEqual([false, 2]);
    expect(fresh.value?.["request_id"]).not.toBe(first.value?.["request_id"]);
  });

  test("refusals that pass by themselves are not kept", async () => {
    const { id } = await send();
    const resendKey = newKey();
    expectRefusal(await call("ResendOtp", { request_id: id }, resendKey), "RESEND_TOO_SOON", { retryAfterSeconds: 30 });
    world.system.advance(30_000);
    const resent = await call("ResendOtp", { request_id: id }, resendKey);
    expect([isReplayed(resent), resent.value?.["resends_remaining"]]).toEqual([false, 1]);

    world.network.script.push({ kind: "refused", cause: "balance", detail: "no credit" });
    const [phone, sendKey] = [newPhone(), newKey()];
    expectRefusal(await call("SendOtp", { phone }, sendKey), "DELIVERY_FAILED", { retryAfterSeconds: 5 });
    const sent = await call("SendOtp", { phone }, sendKey);
    expect([isReplayed(sent), sent.value?.["state"]]).toEqual([false, "STATE_PENDING"]);
  });

  test("while the first call is under way a second is IDEMPOTENCY_IN_PROGRESS, and afterwards the replay", async () => {
    const provider = Promise.withResolvers<SendOutcome>();
    const called = Promise.withResolvers<void>();
    world.network.script.push(() => {
      called.resolve();
      return provider.promise;
    });
    const [phone, key] = [newPhone(), newKey()];
    const first = call("SendOtp", { phone }, key);
    await called.promise;
    expectRefusal(await call("SendOtp", { phone }, key), "IDEMPOTENCY_IN_PROGRESS", { retryAfterSeconds: 1 });
    expectRefusal(await call("SendOtp", { phone: newPhone() }, key), "IDEMPOTENCY_KEY_REUSED");
    provider.resolve({ kind: "accepted" });
    const { value } = await first;
    const replayed = await call("SendOtp", { phone }, key);
    expect([isReplayed(replayed), replayed.value, smsTo(phone)]).toEqual([true, value, 1]);
  });

  test("calls at once under one key have one effect", async () => {
    const phone = newPhone();
    const key = newKey();
    const sends = await Promise.all(Array.from({ length: 10 }, () => call("SendOtp", { phone }, key)));
    const ids = new Set(sends.flatMap(({ value }) => (value === undefined ? [] : [value["request_id"]])));
    const refused = new Set(sends.flatMap(({ reason }) => (reason === undefined ? [] : [reason])));
    expect([ids.size, smsTo(phone)]).toEqual([1, 1]);
    expect([...refused].filter((reason) => reason !== "IDEMPOTENCY_IN_PROGRESS")).toEqual([]);

    const [id] = [...ids];
    const verify = { request_id: String(id), code: wrongCode(world.network.codeFor(phone)) };
    const guesses = await Promise.all(Array.from({ length: 10 }, () => call("VerifyOtp", verify, key)));
    expect(new Set(guesses.map((guess) => `${guess.reason} ${guess.attemptsRemaining}`))).toEqual(
      new Set(["CODE_MISMATCH 4"]),
    );
    expect(guesses.filter(isReplayed)).toHaveLength(9);
    expect((await rowOf(world.database, String(id))).attempts).toBe(1);
  });

  test("every kind of answer outlives a restart", async () => {
    const { id, code } = await send();
    const [sendKey, wrongKey, resendKey, rightKey, cancelKey] = Array.from({ length: 5 }, newKey);
    const other = await send();
    world.system.advance(30_000);
    const script: [Rpc, Message, string | undefined][] = [
      ["SendOtp", { phone: newPhone() }, sendKey],
      ["ResendOtp", { request_id: id }, resendKey],
      ["VerifyOtp", { request_id: id, code: wrongCode(code) }, wrongKey],
      ["VerifyOtp", { request_id: id, code }, rightKey],
      ["CancelOtp", { request_id: other.id }, cancelKey],
    ];
    const before: Outcome[] = [];
    for (const [rpc, message, key] of script) before.push(await call(rpc, message, key));
    const sms = world.network.received.length;
    await world.restart();
    for (const [at, [rpc, message, key]] of script.entries()) {
      const after = await call(rpc, message, key);
      expect([isReplayed(after), shown(after)]).toEqual([true, shown(before[at] as Outcome)]);
    }
    expect(world.network.received).toHaveLength(sms);
  });
});

test("a verify whose answer was lost on the way can be asked again", async () => {
  const phone = newPhone();
  const [rest] = surfaces;
  const sent = await rest?.call(world.url, "SendOtp", { phone }, { key: world.key });
  const body = JSON.stringify({ request_id: sent?.value?.["request_id"], code: world.network.codeFor(phone) });
  const key = newKey();
  const lost = await untilFirstByte(
    world.url,
    `POST /v1/otp/verify HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${world.key}\r\nidempotency-key: ${key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  expect(lost).toMatch(/^HTTP\/1\.1 200/);
  const options = { key: world.key, headers: { "idempotency-key": key } };
  const again = await rest?.call(world.url, "VerifyOtp", JSON.parse(body) as Message, options);
  expect(again?.value).toMatchObject({ state: "STATE_VERIFIED", phone });
});

test("a send past the phone's limit is not kept either", async () => {
  const narrow = await startWorld({ OTP_PHONE_LIMITS: "1@10m" });
  try {
    const phone = newPhone();
    for (const surface of surfaces) {
      const options = { key: narrow.key, headers: { "idempotency-key": newKey() } };
      await surface.call(narrow.url, "SendOtp", { phone }, { key: narrow.key });
      const refused = await surface.call(narrow.url, "SendOtp", { phone }, options);
      expectRefusal(refused, "PHONE_RATE_LIMITED", { field: "phone", retryAfterSeconds: 600 });
      narrow.system.advance(600_000);
      const sent = await surface.call(narrow.url, "SendOtp", { phone }, options);
      expect([isReplayed(sent), sent.value?.["state"]]).toEqual([false, "STATE_PENDING"]);
      narrow.system.advance(600_000);
    }
  } finally {
    await narrow.stop();
  }
});

test("the database holds no unkeyed hash of a code or of a verify's body", async () => {
  const phone = newPhone();
  const [rest] = surfaces;
  const sent = await rest?.call(world.url, "SendOtp", { phone }, { key: world.key });
  const id = String(sent?.value?.["request_id"]);
  const code = world.network.codeFor(phone);
  const key = newKey();
  const options = { key: world.key, headers: { "idempotency-key": key } };
  const message = { request_id: id, code };
  expect(await rest?.call(world.url, "VerifyOtp", message, options)).toHaveProperty("value");

  const prefixed = (...fields: string[]) =>
    Buffer.concat(
      fields.flatMap((field) => {
        const length = Buffer.alloc(4);
        length.writeUInt32BE(field.length);
        return [length, Buffer.from(field)];
      }),
    );
  const guesses = [code, id + code, code + id, JSON.stringify(message), prefixed(code), prefixed(id, code)];
  guesses.push(prefixed(id, code, "", ""), prefixed("VerifyOtp", id, code, "", ""), `${id}:${code}`, `${id}.${code}`);
  const bytes = await bytesOf(world.database);
  for (const algorithm of ["md5", "sha1", "sha256", "sha512"]) {
    for (const guess of guesses) {
      const hash = createHash(algorithm).update(guess).digest();
      const forms = [hash.subarray(0, 16), hash.toString("hex").slice(0, 32), hash.toString("base64url").slice(0, 20)];
      expect(forms.map((form) => bytes.includes(form))).toEqual([false, false, false]);
    }
  }
});
