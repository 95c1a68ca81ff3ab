/**
 * The error table, over every surface: each reason that a caller can meet, with its code, status, field, attempts,
 * `Retry-After` and details. The rows stand in the order in which refusals win.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectRefusal, type ContractReason, type Particulars } from "../support/data/contract.ts";
import { latestFailedId } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import {
  connectByFetch,
  surfaces,
  type Message,
  type Outcome,
  type Rpc,
  type Surface,
} from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
const keys = { sendOnly: "", verifyOnly: "" };

beforeAll(async () => {
  world = await startWorld({ OTP_ALLOWED_COUNTRIES: "NL" });
  keys.sendOnly = (await world.makeKey({ scopes: ["send"] })).text;
  keys.verifyOnly = (await world.makeKey({ scopes: ["verify"] })).text;
});
afterAll(() => world.stop());

/** What a row may do to get refused. */
interface Hand {
  call(rpc: Rpc, message?: Message, headers?: Record<string, string>, key?: string | null): Promise<Outcome>;
  /** Sends, and tells the request_id and the code. */
  send(more?: Message): Promise<{ id: string; code: string; phone: string }>;
}

function handOf(surface: Surface): Hand {
  const call: Hand["call"] = (rpc, message = {}, headers = {}, key = world.key) =>
    surface.call(world.url, rpc, message, { key, headers });
  return {
    call,
    async send(more = {}) {
      const phone = newPhone();
      const { value } = await call("SendOtp", { phone, ...more });
      return { id: String(value?.["request_id"]), code: world.network.codeFor(phone), phone };
    },
  };
}

interface Row {
  readonly name: string;
  readonly act: (hand: Hand) => Promise<Outcome>;
  readonly reason: ContractReason;
  readonly says?: Particulars;
}

const unknownId = "AAAAAAAAAAAAAAAAAAAAAA";

const rows: Row[] = [
  {
    name: "a key without the scope",
    act: ({ call }) => call("VerifyOtp", { request_id: unknownId, code: "x" }, {}, keys.sendOnly),
    reason: "SCOPE_MISSING",
  },
  {
    name: "a resend with a key that may not send",
    act: ({ call }) => call("ResendOtp", { request_id: "" }, {}, keys.verifyOnly),
    reason: "SCOPE_MISSING",
  },
  {
    name: "no phone",
    act: ({ call }) => call("SendOtp", { channel: "pigeon" }),
    reason: "INVALID_REQUEST",
    says: { field: "phone" },
  },
  {
    name: "a phone of 257 characters",
    act: ({ call }) => call("SendOtp", { phone: "1".repeat(257) }),
    reason: "INVALID_REQUEST",
    says: { field: "phone" },
  },
  {
    name: "a locale that is no tag",
    act: ({ call }) => call("SendOtp", { phone: "1", locale: "nl_NL" }),
    reason: "INVALID_REQUEST",
    says: { field: "locale" },
  },
  {
    name: "a purpose that is not ASCII",
    act: ({ call }) => call("SendOtp", { phone: "1", purpose: "naïve" }),
    reason: "INVALID_REQUEST",
    says: { field: "purpose" },
  },
  {
    name: "eleven bindings",
    act: ({ call }) =>
      call("SendOtp", { phone: "1", bind: Object.fromEntries("abcdefghijk".split("").map((k) => [k, ""])) }),
    reason: "INVALID_REQUEST",
    says: { field: "bind" },
  },
  {
    name: "4097 characters for the bot check",
    act: ({ call }) => call("SendOtp", { phone: "1", challenge_token: "x".repeat(4_097) }),
    reason: "INVALID_REQUEST",
    says: { field: "challenge_token" },
  },
  {
    name: "no request_id to verify",
    act: ({ call }) => call("VerifyOtp", { code: "123456" }),
    reason: "INVALID_REQUEST",
    says: { field: "request_id" },
  },
  {
    name: "a code of 257 characters",
    act: ({ call }) => call("VerifyOtp", { request_id: unknownId, code: "1".repeat(257) }),
    reason: "INVALID_REQUEST",
    says: { field: "code" },
  },
  {
    name: "no request_id to resend",
    act: ({ call }) => call("ResendOtp"),
    reason: "INVALID_REQUEST",
    says: { field: "request_id" },
  },
  {
    name: "no request_id to cancel",
    act: ({ call }) => call("CancelOtp"),
    reason: "INVALID_REQUEST",
    says: { field: "request_id" },
  },
  {
    name: "an Idempotency-Key with a space in it",
    act: ({ call }) => call("SendOtp", { phone: "1" }, { "idempotency-key": "a b" }),
    reason: "INVALID_REQUEST",
    says: { field: "Idempotency-Key" },
  },
  {
    name: "an Idempotency-Key of 256 characters",
    act: ({ call }) => call("CancelOtp", { request_id: unknownId }, { "idempotency-key": "k".repeat(256) }),
    reason: "INVALID_REQUEST",
    says: { field: "Idempotency-Key" },
  },
  {
    name: "an Idempotency-Key used for another phone",
    act: async ({ call }) => {
      const headers = { "idempotency-key": `reused-${newPhone()}` };
      await call("SendOtp", { phone: newPhone() }, headers);
      return call("SendOtp", { phone: newPhone(), channel: "pigeon" }, headers);
    },
    reason: "IDEMPOTENCY_KEY_REUSED",
  },
  {
    name: "an unknown channel, before the phone is looked at",
    act: ({ call }) => call("SendOtp", { phone: "1", channel: "pigeon" }),
    reason: "CHANNEL_UNSUPPORTED",
    says: { field: "channel" },
  },
  {
    name: "a number in national format",
    act: ({ call }) => call("SendOtp", { phone: "0612345678" }),
    reason: "PHONE_INVALID",
    says: { field: "phone" },
  },
  {
    name: "a landline, before its country is looked at",
    act: ({ call }) => call("SendOtp", { phone: "+3222230000" }),
    reason: "PHONE_NOT_MOBILE",
    says: { field: "phone" },
  },
  {
    name: "a country that is not on the list",
    act: ({ call }) => call("SendOtp", { phone: "+32470123456" }),
    reason: "COUNTRY_NOT_ALLOWED",
    says: { field: "phone" },
  },
  {
    name: "a number that the last provider refuses",
    act: ({ call }) => {
      world.network.script.push({ kind: "refused", cause: "recipient", detail: "no such subscriber" });
      return call("SendOtp", { phone: newPhone() });
    },
    reason: "PHONE_UNREACHABLE",
    says: { field: "phone" },
  },
  {
    name: "a provider that refuses our credentials",
    act: ({ call }) => {
      world.network.script.push({ kind: "refused", cause: "credentials", detail: "401" });
      return call("SendOtp", { phone: newPhone() });
    },
    reason: "DELIVERY_FAILED",
    says: { retryAfterSeconds: 5 },
  },
  {
    name: "an unknown request_id to verify, before the code is looked at",
    act: ({ call }) => call("VerifyOtp", { request_id: unknownId, code: "x" }),
    reason: "REQUEST_NOT_FOUND",
  },
  {
    name: "an unknown request_id to resend",
    act: ({ call }) => call("ResendOtp", { request_id: "nonsense" }),
    reason: "REQUEST_NOT_FOUND",
  },
  {
    name: "an unknown request_id to cancel",
    act: ({ call }) => call("CancelOtp", { request_id: unknownId }),
    reason: "REQUEST_NOT_FOUND",
  },
  {
    name: "an unknown request_id to get",
    act: ({ call }) => call("GetOtp", { request_id: unknownId }),
    reason: "REQUEST_NOT_FOUND",
  },
  {
    name: "a verified one, before the code is looked at",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      await call("VerifyOtp", { request_id: id, code });
      return call("VerifyOtp", { request_id: id, code: "x" });
    },
    reason: "OTP_ALREADY_VERIFIED",
  },
  {
    name: "a canceled one",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      await call("CancelOtp", { request_id: id });
      return call("VerifyOtp", { request_id: id, code });
    },
    reason: "OTP_CANCELED",
  },
  {
    name: "a locked one",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      for (let i = 1; i <= 5; i++) await call("VerifyOtp", { request_id: id, code: wrongCode(code, i) });
      return call("VerifyOtp", { request_id: id, code });
    },
    reason: "OTP_LOCKED",
  },
  {
    name: "an expired one",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      world.system.advance(600_000);
      return call("VerifyOtp", { request_id: id, code });
    },
    reason: "OTP_EXPIRED",
  },
  {
    name: "a code of five digits",
    act: async ({ call, send }) =>
      call("VerifyOtp", { request_id: (await send()).id, code: "12345", purpose: "other" }),
    reason: "CODE_MALFORMED",
    says: { field: "code" },
  },
  {
    name: "another purpose, before the code is compared",
    act: async ({ call, send }) => {
      const { id, code } = await send({ purpose: "login" });
      return call("VerifyOtp", { request_id: id, code, purpose: "payment" });
    },
    reason: "PURPOSE_MISMATCH",
    says: { field: "purpose" },
  },
  {
    name: "another binding",
    act: async ({ call, send }) => {
      const { id, code } = await send({ bind: { amount: "10.00", payee: "Ada" } });
      return call("VerifyOtp", { request_id: id, code, bind: { amount: "99.00", payee: "Ada" } });
    },
    reason: "PURPOSE_MISMATCH",
    says: { field: "bind" },
  },
  {
    name: "the first wrong code",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      return call("VerifyOtp", { request_id: id, code: wrongCode(code) });
    },
    reason: "CODE_MISMATCH",
    says: { field: "code", attemptsRemaining: 4 },
  },
  {
    name: "the fifth wrong code",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      for (let i = 1; i <= 4; i++) await call("VerifyOtp", { request_id: id, code: wrongCode(code, i) });
      return call("VerifyOtp", { request_id: id, code: wrongCode(code, 5) });
    },
    reason: "CODE_MISMATCH",
    says: { field: "code", attemptsRemaining: 0 },
  },
  {
    name: "a resend of one whose message could not be sent",
    act: async ({ call }) => {
      world.network.script.push({ kind: "refused", cause: "balance", detail: "no credit" });
      await call("SendOtp", { phone: newPhone() });
      return call("ResendOtp", { request_id: await latestFailedId(world.database) });
    },
    reason: "OTP_FAILED",
  },
  {
    name: "a resend with 59.999 s left",
    act: async ({ call, send }) => {
      const { id } = await send();
      world.system.advance(540_001);
      return call("ResendOtp", { request_id: id });
    },
    reason: "RESENDS_EXHAUSTED",
  },
  {
    name: "a third resend",
    act: async ({ call, send }) => {
      const { id } = await send();
      for (const gapMs of [30_000, 60_000]) {
        world.system.advance(gapMs);
        expect(await call("ResendOtp", { request_id: id })).toMatchObject({ value: { state: "STATE_PENDING" } });
      }
      return call("ResendOtp", { request_id: id });
    },
    reason: "RESENDS_EXHAUSTED",
  },
  {
    name: "a resend 1 ms too soon",
    act: async ({ call, send }) => {
      const { id } = await send();
      world.system.advance(29_999);
      return call("ResendOtp", { request_id: id });
    },
    reason: "RESEND_TOO_SOON",
    says: { retryAfterSeconds: 1 },
  },
  {
    name: "a resend 28.001 s too soon",
    act: async ({ call, send }) => {
      const { id } = await send();
      world.system.advance(1_999);
      return call("ResendOtp", { request_id: id });
    },
    reason: "RESEND_TOO_SOON",
    says: { retryAfterSeconds: 29 },
  },
  {
    name: "a cancel of a verified one",
    act: async ({ call, send }) => {
      const { id, code } = await send();
      await call("VerifyOtp", { request_id: id, code });
      return call("CancelOtp", { request_id: id });
    },
    reason: "OTP_ALREADY_VERIFIED",
  },
];

describe.each([...surfaces, connectByFetch])("over $name", (surface) => {
  test.each(rows)("$name: $reason", async ({ act, reason, says }) => {
    expectRefusal(await act(handOf(surface)), reason, says);
  });
});
