/**
 * The sandbox as docs/testing.md promises it: every number of its table, over REST and gRPC, and that the two worlds do
 * not meet. No provider is ever called.
 */
import { readFileSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { expectRefusal } from "../support/data/contract.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { withChecksum } from "../support/service/keys.ts";
import { createPhoneNetwork, startWorld, type World } from "../support/service/world.ts";

/** The documentation's table: number → what happens. */
const documented = new Map(
  [
    ...readFileSync(new URL("../../docs/testing.md", import.meta.url), "utf8").matchAll(
      /^\| `(\+1 [\d ]+)` \| (.*?) +\|$/gm,
    ),
  ].map(([, number = "", says = ""]) => [number, says]),
);

let world: World;
let testKey: string;
beforeAll(async () => {
  // One message a day for a live phone, and a country list that fictional numbers are not on.
  const others = { voice: [createPhoneNetwork("caller")], whatsapp: [createPhoneNetwork("chat")] };
  world = await startWorld({ OTP_ALLOWED_COUNTRIES: "NL", OTP_PHONE_LIMITS: "1@1d" }, undefined, others);
  ({ text: testKey } = await world.makeKey({ kind: "test" }));
});
afterAll(() => world.stop());
// After every test: nothing of the sandbox came to the phone network.
afterEach(() => {
  const leaked = world.network.received.find(({ to, text }) => to.startsWith("+1") || /^(123456|12345678) /.test(text));
  if (leaked !== undefined) throw new Error(`a provider was given a message of the sandbox, to ${leaked.to}`);
});

const chosen = surfaces.filter(({ name }) => name === "REST" || name === "gRPC");

/** Lets the pause before the second try pass, as soon as the first has failed. */
async function passRetry<T>(answer: Promise<T>): Promise<T> {
  const waiting = () =>
    inDatabase(world.databasePath, (db) =>
      db.prepare("SELECT 1 FROM messages WHERE failures = 1 AND due_ms IS NOT NULL").get(),
    );
  while (waiting() === undefined) await turn();
  world.system.advance(1_000);
  return answer;
}

describe.each(chosen)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, key = testKey, headers = {}): Promise<Outcome> =>
    surface.call(world.url, rpc, message, { key, headers });
  const send = (phone: string) => call("SendOtp", { phone });
  async function sent(phone: string): Promise<string> {
    return String((await send(phone)).value?.["request_id"]);
  }

  /** What each channel's message comes to: its delivery, or why it is refused. */
  const byChannel = async (phone: string) => {
    const came = ["sms", "voice", "whatsapp"].map(async (channel) => {
      const { value, reason } = await call("SendOtp", { phone, channel });
      return value?.["delivery"] ?? reason;
    });
    return Promise.all(came);
  };
  const [delivered, lost, refused] = ["DELIVERY_DELIVERED", "DELIVERY_UNDELIVERED", "PHONE_UNREACHABLE"];

  /** What each sentence of the documentation means, for the number it is said of. */
  const meanings: Record<string, (phone: string) => Promise<void>> = {
    "the message is delivered; the code is `123456`": async (phone) => {
      const { value } = await send(phone);
      expect(value).toMatchObject({ state: "STATE_PENDING", delivery: "DELIVERY_DELIVERED", code_length: 6 });
      const request_id = String(value?.["request_id"]);
      const verified = await call("VerifyOtp", { request_id, code: "123456" });
      expect(verified.value).toMatchObject({ request_id, state: "STATE_VERIFIED", phone: phone.replaceAll(" ", "") });
    },
    "the message is undelivered; the code is `123456`": async (phone) => {
      const { value } = await send(phone);
      expect(value).toMatchObject({ state: "STATE_PENDING", delivery: "DELIVERY_UNDELIVERED", code_length: 6 });
      const request_id = String(value?.["request_id"]);
      expect((await call("GetOtp", { request_id })).value).toMatchObject({ delivery: "DELIVERY_UNDELIVERED" });
      const verified = await call("VerifyOtp", { request_id, code: "123456" });
      expect(verified.value).toMatchObject({ state: "STATE_VERIFIED" });
    },
    "the provider is down: `send` answers DELIVERY_FAILED": async (phone) => {
      expectRefusal(await passRetry(send(phone)), "DELIVERY_FAILED", { retryAfterSeconds: 5 });
    },
    "the number is refused: `send` answers PHONE_UNREACHABLE": async (phone) => {
      expectRefusal(await send(phone), "PHONE_UNREACHABLE", { field: "phone" });
    },
    "`send` answers PHONE_RATE_LIMITED, with `Retry-After: 60`": async (phone) => {
      expectRefusal(await send(phone), "PHONE_RATE_LIMITED", { field: "phone", retryAfterSeconds: 60 });
    },
    "`verify` answers OTP_EXPIRED, whatever the code": async (phone) => {
      for (const code of ["123456", "000000", "1"]) {
        const request_id = await sent(phone);
        expectRefusal(await call("VerifyOtp", { request_id, code }), "OTP_EXPIRED");
        expect((await call("GetOtp", { request_id })).value).toMatchObject({ state: "STATE_EXPIRED" });
      }
    },
    "`verify` answers OTP_LOCKED, whatever the code": async (phone) => {
      for (const code of ["123456", "000000", "1"]) {
        const request_id = await sent(phone);
        expectRefusal(await call("VerifyOtp", { request_id, code }), "OTP_LOCKED");
        expect((await call("GetOtp", { request_id })).value).toMatchObject({ state: "STATE_LOCKED" });
      }
    },
    "the code has 8 digits: `code_length` is 8, and the code is `12345678`": async (phone) => {
      const { value } = await send(phone);
      expect(value).toMatchObject({ delivery: "DELIVERY_DELIVERED", code_length: 8 });
      const request_id = String(value?.["request_id"]);
      expectRefusal(await call("VerifyOtp", { request_id, code: "123456" }), "CODE_MALFORMED", { field: "code" });
      const verified = await call("VerifyOtp", { request_id, code: "12345678" });
      expect(verified.value).toMatchObject({ state: "STATE_VERIFIED" });
    },
    "by SMS it is undelivered, by any other channel delivered": async (phone) => {
      expect(await byChannel(phone)).toEqual([lost, delivered, delivered]);
    },
    "by voice it is undelivered, by any other channel delivered": async (phone) => {
      expect(await byChannel(phone)).toEqual([delivered, lost, delivered]);
    },
    "by WhatsApp it is undelivered, by any other channel delivered": async (phone) => {
      expect(await byChannel(phone)).toEqual([delivered, delivered, lost]);
    },
    "by SMS the number is refused, by any other channel delivered": async (phone) => {
      expect(await byChannel(phone)).toEqual([refused, delivered, delivered]);
    },
    "by voice the number is refused, by any other channel delivered": async (phone) => {
      expect(await byChannel(phone)).toEqual([delivered, refused, delivered]);
    },
    "by WhatsApp the number is refused, by any other channel delivered": async (phone) => {
      expect(await byChannel(phone)).toEqual([delivered, delivered, refused]);
    },
  };

  test("every sentence of the table is tried, and every outcome is in the table", () => {
    expect([...documented.values()]).toEqual(Object.keys(meanings));
  });

  test.each([...documented])("%s: %s", async (phone, says) => {
    await meanings[says]?.(phone);
    await meanings[says]?.(phone.replace("415", "212"));
    expect.hasAssertions();
  });

  test.each([
    ["a live number", "+31612345678"],
    ["a live number of North America", "+14155552671"],
    ["a landline", "+31201234567"],
    ["a fictional number without an outcome", "+14155550142"],
    ["a toll-free number", "+18005550100"],
    ["words", "hello"],
  ])("a test key is refused %s as PHONE_INVALID", async (_, phone) => {
    expectRefusal(await send(phone), "PHONE_INVALID", { field: "phone" });
    expect(world.network.received.filter(({ to }) => to === phone)).toEqual([]);
  });

  test("a live key is refused every fictional number as PHONE_INVALID", async () => {
    for (const phone of [...documented.keys(), "+14155550142"]) {
      expectRefusal(await call("SendOtp", { phone }, world.key), "PHONE_INVALID", { field: "phone" });
    }
  });

  test("neither kind of key finds the other's requests: the answer is that to an unknown id, byte for byte", async () => {
    const theirs = await sent("+14155550100");
    const phone = newPhone();
    const live = await call("SendOtp", { phone }, world.key);
    const ours = String(live.value?.["request_id"]);
    const unknown = "AAAAAAAAAAAAAAAAAAAAAA";
    /** All of an answer but what belongs to one call. */
    const whole = ({ headers, ...said }: Outcome) => ({
      said,
      headers: [...headers].filter(([name]) => !["date", "x-call-id"].includes(name)),
    });
    const rpcs: [Rpc, Message][] = [
      ["GetOtp", {}],
      ["VerifyOtp", { code: "123456" }],
      ["ResendOtp", {}],
      ["CancelOtp", {}],
    ];
    for (const [rpc, more] of rpcs) {
      for (const [key, id] of [
        [testKey, ours],
        [world.key, theirs],
      ] as const) {
        const foreign = await call(rpc, { request_id: id, ...more }, key);
        expectRefusal(foreign, "REQUEST_NOT_FOUND");
        expect(whole(foreign)).toEqual(whole(await call(rpc, { request_id: unknown, ...more }, key)));
      }
    }
    const code = world.network.codeFor(phone);
    const verified = await call("VerifyOtp", { request_id: ours, code }, world.key);
    expect(verified.value).toMatchObject({ state: "STATE_VERIFIED" });
    expect((await call("GetOtp", { request_id: theirs })).value).toMatchObject({
      state: "STATE_PENDING",
      attempts_remaining: 5,
    });
  });

  test("a test key that calls itself live is refused, its checksum mended or not, and the other way round", async () => {
    for (const [key, from, to] of [
      [testKey, "otp_test_", "otp_live_"],
      [world.key, "otp_live_", "otp_test_"],
    ] as const) {
      const renamed = key.replace(from, to);
      for (const text of [renamed, withChecksum(renamed.slice(0, -6))]) {
        expectRefusal(await call("SendOtp", { phone: newPhone() }, text), "API_KEY_INVALID");
      }
      // The checksum is mended as it is made: with it the key itself is still itself.
      expect(withChecksum(key.slice(0, -6))).toBe(key);
    }
  });

  test("one number gets messages without limit, and its code stays the same", async () => {
    for (let i = 0; i < 12; i++) {
      const { value } = await send("+14155550100");
      expect(value).toMatchObject({ state: "STATE_PENDING", code_length: 6 });
    }
  });

  test("wrong codes count and lock as with a live key, and another request still has the documented code", async () => {
    for (let round = 0; round < 5; round++) {
      const request_id = await sent("+14155550100");
      for (const attemptsRemaining of [4, 3, 2, 1, 0]) {
        const wrong = await call("VerifyOtp", { request_id, code: "654321" });
        expectRefusal(wrong, "CODE_MISMATCH", { field: "code", attemptsRemaining });
      }
      expectRefusal(await call("VerifyOtp", { request_id, code: "123456" }), "OTP_LOCKED");
    }
    const request_id = await sent("+14155550100");
    expectRefusal(await call("VerifyOtp", { request_id, code: "12345" }), "CODE_MALFORMED", { field: "code" });
    expectRefusal(await call("VerifyOtp", { request_id, code: "123456", purpose: "login" }), "PURPOSE_MISMATCH", {
      field: "purpose",
    });
    expect((await call("VerifyOtp", { request_id, code: "123 456" })).value).toMatchObject({ state: "STATE_VERIFIED" });
    expectRefusal(await call("VerifyOtp", { request_id, code: "123456" }), "OTP_ALREADY_VERIFIED");
  });

  test("resends, cancels and expires as with a live key", async () => {
    const request_id = await sent("+14155550100");
    expectRefusal(await call("ResendOtp", { request_id }), "RESEND_TOO_SOON", { retryAfterSeconds: 30 });
    world.system.advance(30_000);
    expect((await call("ResendOtp", { request_id })).value).toMatchObject({
      delivery: "DELIVERY_DELIVERED",
      resends_remaining: 1,
    });
    world.system.advance(60_000);
    expect((await call("ResendOtp", { request_id })).value).toMatchObject({ resends_remaining: 0 });
    expectRefusal(await call("ResendOtp", { request_id }), "RESENDS_EXHAUSTED");
    const canceled = await sent("+14155550100");
    expect((await call("CancelOtp", { request_id: canceled })).value).toMatchObject({ state: "STATE_CANCELED" });
    expectRefusal(await call("VerifyOtp", { request_id: canceled, code: "123456" }), "OTP_CANCELED");
    world.system.advance(600_000);
    expectRefusal(await call("VerifyOtp", { request_id, code: "123456" }), "OTP_EXPIRED");
  });

  test("a repeat with an Idempotency-Key is the same request", async () => {
    const headers = { "idempotency-key": `run-${surface.name}` };
    const first = await call("SendOtp", { phone: "+14155550100" }, testKey, headers);
    const again = await call("SendOtp", { phone: "+14155550100" }, testKey, headers);
    expect(again.value).toEqual(first.value);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
  });
});
