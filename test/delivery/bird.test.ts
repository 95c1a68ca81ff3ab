/**
 * Bird through its own SDK, against a server that answers as Bird does, and as Bird never should.
 */
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createBirdProvider, type BirdOptions } from "../../src/delivery/providers/bird.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { deadOrigin, oddReplies, startFarEnd, type FarEnd, type Reply } from "../support/fakes/far-end.ts";
import { sms } from "../support/data/messages.ts";
import { faultsOf } from "../support/service/environment.ts";

let farEnd: FarEnd;
beforeAll(async () => {
  farEnd = await startFarEnd({ status: 202, body: { id: "sms_1" } });
});
afterAll(() => farEnd.stop());
beforeEach(() => void farEnd.asked.splice(0));

const secret = Buffer.alloc(32, 0x77).toString("base64");

function bird(changes: Partial<BirdOptions> = {}) {
  return createBirdProvider({
    apiKey: "bk_eu1_secret",
    originator: "Acme",
    originators: new Map([["US", "+15551234567"]]),
    template: "bird_otp",
    whatsappSender: undefined,
    webhookSecret: `whsec_${secret}`,
    baseUrl: new URL(farEnd.url),
    now: Date.now,
    ...changes,
  });
}

/** A signal that never comes to it in a test that goes well; before the SDK's own deadline of 10 s, so that it would. */
const patience = () => AbortSignal.timeout(9_000);

describe("a message to Bird", () => {
  test("has the sender, the number, the text and our reference, and nothing that Bird refuses", async () => {
    farEnd.reply = { status: 202, body: { id: "sms_1" } };
    const told: number[] = [];
    const outcome = await bird().send(sms, patience(), (status) => told.push(status));
    expect({ outcome, told }).toEqual({ outcome: { kind: "accepted", providerMessageId: "sms_1" }, told: [202] });
    const [asked] = farEnd.asked;
    expect(asked).toMatchObject({ method: "POST", path: "/v1/sms/messages" });
    expect(asked?.headers.authorization).toBe("Bearer bk_eu1_secret");
    // validity_period is refused by Bird (SMSUnsupportedFeature) wherever it is named.
    expect(JSON.parse(asked?.body ?? "")).toEqual({
      from: "Acme",
      to: "+31612345678",
      text: sms.text,
      category: "authentication",
      metadata: { reference: sms.reference },
    });
  });

  test("has the sender of its country", async () => {
    farEnd.reply = { status: 202, body: { id: "sms_1" } };
    await bird().send({ ...sms, region: "US" }, patience());
    expect(JSON.parse(farEnd.asked[0]?.body ?? "")).toMatchObject({ from: "+15551234567" });
  });

  test("has the same Idempotency-Key at every try, and another message another", async () => {
    farEnd.reply = { status: 503 };
    await bird().send(sms, patience());
    await bird().send(sms, patience());
    await bird().send({ ...sms, reference: "AAAAAAAAAAAAAAAAAAAAAA.1" }, patience());
    const keys = farEnd.asked.map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toEqual([sms.reference, sms.reference, "AAAAAAAAAAAAAAAAAAAAAA.1"]);
  });
});

describe("a template by WhatsApp", () => {
  const whatsapp = { ...sms, channel: "whatsapp" as const, locale: "pt-BR" };
  const asked = async (changes: Partial<BirdOptions> = {}) => {
    farEnd.reply = { status: 202, body: { id: "wam_1" } };
    const outcome = await bird(changes).send(whatsapp, patience());
    expect(outcome).toEqual({ kind: "accepted", providerMessageId: "wam_1" });
    const [{ path, body, headers } = { path: "", body: "", headers: {} as Record<string, unknown> }] = farEnd.asked;
    expect({ path, key: headers["idempotency-key"] }).toEqual({ path: "/v1/whatsapp/messages", key: sms.reference });
    return JSON.parse(body) as unknown;
  };
  const parameters = [{ type: "text", text: "123456" }];

  test("is Bird's own, which chooses its sender, unless one of the operator's is named", async () => {
    expect(await asked()).toEqual({
      to: "+31612345678",
      template: { slug: "bird_otp", language: "pt-BR", components: [{ type: "body", parameters }] },
      metadata: { reference: sms.reference },
    });
  });

  test("of the operator's own has its sender, and the code for its button too", async () => {
    expect(await asked({ template: "acme_code", whatsappSender: "+31201234567" })).toMatchObject({
      from: "+31201234567",
      template: {
        slug: "acme_code",
        components: [
          { type: "body", parameters },
          { type: "button", parameters },
        ],
      },
    });
  });
});

const problem = (code: string, more: object = {}) => ({
  error: { code, message: `no: ${sms.to}, ${sms.text}`, ...more },
});

describe("Bird's answer, in one call", () => {
  test.each<[string, Reply, SendOutcome]>([
    ["with an id", { status: 202, body: { id: "sms_9" } }, { kind: "accepted", providerMessageId: "sms_9" }],
    [
      "without an id",
      { status: 202, body: { status: "accepted" } },
      { kind: "ambiguous", detail: "an answer without a message id" },
    ],
    [
      "with an empty id",
      { status: 202, body: { id: "" } },
      { kind: "ambiguous", detail: "an answer without a message id" },
    ],
    [
      "401",
      { status: 401, body: problem("E01001", { type: "auth_error" }) },
      { kind: "refused", cause: "credentials", detail: "HTTP 401: E01001" },
    ],
    [
      "403",
      { status: 403, body: problem("E01002") },
      { kind: "refused", cause: "credentials", detail: "HTTP 403: E01002" },
    ],
    [
      "402",
      { status: 402, body: problem("E02001") },
      { kind: "refused", cause: "balance", detail: "HTTP 402: E02001" },
    ],
    ["404", { status: 404, body: problem("E00404") }, { kind: "unavailable", detail: "HTTP 404: E00404" }],
    ["405 without a body", { status: 405 }, { kind: "unavailable", detail: "HTTP 405" }],
    ["409 for a message that came before", { status: 409, body: problem("E01028") }, { kind: "accepted" }],
    [
      "422 about the number",
      { status: 422, body: problem("E10001", { param: "to" }) },
      { kind: "refused", cause: "recipient", detail: "HTTP 422: E10001" },
    ],
    [
      "422 about the number, in its details",
      { status: 422, body: problem("E10001", { details: [null, { param: "to" }] }) },
      { kind: "refused", cause: "recipient", detail: "HTTP 422: E10001" },
    ],
    [
      "422 about the sender",
      { status: 422, body: problem("E10002", { param: "from", details: [{ param: "from" }] }) },
      { kind: "refused", cause: "content", detail: "HTTP 422: E10002" },
    ],
    [
      "422 with details that are no list",
      { status: 422, body: problem("E10002", { details: { param: "to" } }) },
      { kind: "refused", cause: "content", detail: "HTTP 422: E10002" },
    ],
    ["400 without a body", { status: 400 }, { kind: "refused", cause: "content", detail: "HTTP 400" }],
    [
      "a code that is a sentence with the number in it",
      { status: 400, body: problem(`no route to ${sms.to}`) },
      { kind: "refused", cause: "content", detail: "HTTP 400" },
    ],
    [
      "429 with a wait",
      { status: 429, headers: { "retry-after": "7" }, body: problem("E00001") },
      { kind: "throttled", detail: "HTTP 429: E00001", retryAfterMs: 7_000 },
    ],
    ["429 without one", { status: 429 }, { kind: "throttled", detail: "HTTP 429" }],
    ["500", { status: 500 }, { kind: "ambiguous", detail: "HTTP 500" }],
    [
      "a 500 that calls itself an auth_error",
      { status: 500, body: problem("E00500", { type: "auth_error" }) },
      { kind: "ambiguous", detail: "HTTP 500: E00500" },
    ],
    ["503", { status: 503, body: "<html>" }, { kind: "ambiguous", detail: "HTTP 503" }],
    ["a reset connection", oddReplies.reset, { kind: "ambiguous", detail: "the connection ended without an answer" }],
    ["half an answer", oddReplies.cut, { kind: "ambiguous", detail: "the connection ended without an answer" }],
    [
      "an answer without an end",
      oddReplies.endless,
      { kind: "ambiguous", detail: "the connection ended without an answer" },
    ],
    [
      "success that is no JSON",
      { status: 200, headers: { "content-type": "application/json" }, body: '{"id"' },
      { kind: "ambiguous", detail: "the connection ended without an answer" },
    ],
  ])("%s", async (_, reply, outcome) => {
    farEnd.reply = reply;
    const signal = patience();
    expect(await bird().send(sms, signal)).toEqual(outcome);
    expect(signal.aborted).toBe(false);
    expect(farEnd.asked).toHaveLength(1);
  });

  test("a redirect is not followed: the text goes nowhere else, and was not sent", async () => {
    for (const status of [302, 307, 308]) {
      farEnd.asked.splice(0);
      farEnd.reply = { status, headers: { location: "/elsewhere" } };
      expect(await bird().send(sms, patience())).toEqual({ kind: "unavailable", detail: `HTTP ${status}` });
      expect(farEnd.asked).toHaveLength(1);
    }
  });

  test("that never comes is waited for until the signal", async () => {
    const deadline = new AbortController();
    farEnd.reply = () => deadline.abort(new Error("the worker's deadline"));
    expect(await bird().send(sms, deadline.signal)).toMatchObject({ kind: "ambiguous" });
    expect(farEnd.asked).toHaveLength(1);
  });

  test("where nobody listens, nothing was sent", async () => {
    const nowhere = bird({ baseUrl: new URL(await deadOrigin()) });
    expect(await nowhere.send(sms, patience())).toEqual({ kind: "unavailable", detail: "no connection" });
  });
});

/** A report as Bird signs it. */
function reportOf(event: unknown, key = secret, at = Math.floor(Date.now() / 1_000)) {
  const body = typeof event === "string" ? event : JSON.stringify(event);
  const mac = createHmac("sha256", Buffer.from(key, "base64")).update(`msg_1.${at}.${body}`).digest("base64");
  return {
    method: "POST",
    target: "/webhooks/bird",
    headers: { "webhook-id": "msg_1", "webhook-timestamp": `${at}`, "webhook-signature": `v1,${mac}` },
    body: Buffer.from(body),
  };
}

const event = (type: string, data: object = {}) => ({
  type,
  timestamp: "2026-01-01T12:00:00Z",
  data: { sms_id: "sms_1", to: sms.to, from: "Acme", metadata: { reference: sms.reference }, ...data },
});

describe("Bird's report", () => {
  test.each([
    ["sms.accepted", "ACCEPTED"],
    ["sms.sent", "ACCEPTED"],
    ["sms.delivered", "DELIVERED"],
    ["sms.undelivered", "UNDELIVERED"],
    ["sms.failed", "UNDELIVERED"],
    ["sms.rejected", "UNDELIVERED"],
    ["sms.expired", "UNDELIVERED"],
  ])("%s says %s", async (type, delivery) => {
    expect(await bird().readReport?.(reportOf(event(type, { error: { code: "E1" } })))).toEqual({
      kind: "genuine",
      reports: [{ reference: sms.reference, providerMessageId: "sms_1", delivery, detail: "E1" }],
    });
  });

  test.each<[string, unknown]>([
    ["an event of another kind", event("email.delivered")],
    ["an event named like what every object has", event("constructor")],
    ["an event named like an object's own origin", event("__proto__")],
    ["an event of a kind to come", event("sms.teleported")],
    ["an SMS that is not ours", event("sms.delivered", { metadata: null })],
    ["a reference that is no text", event("sms.delivered", { metadata: { reference: 1 } })],
    ["an event without data", { type: "sms.delivered" }],
  ])("%s is genuine, and says nothing to us", async (_, said) => {
    expect(await bird().readReport?.(reportOf(said))).toEqual({ kind: "irrelevant" });
  });

  const genuine = reportOf(event("sms.delivered"));
  const anHour = 3_600;
  test.each([
    ["without a signature", "unsigned", { ...genuine, headers: {} }],
    ["signed by another secret", "signature", reportOf(event("sms.delivered"), Buffer.alloc(32, 1).toString("base64"))],
    ["with a changed body", "signature", { ...genuine, body: Buffer.from(JSON.stringify(event("sms.failed"))) }],
    ["under another id", "signature", { ...genuine, headers: { ...genuine.headers, "webhook-id": "msg_2" } }],
    [
      "signed an hour ago",
      "timestamp",
      reportOf(event("sms.delivered"), secret, Math.floor(Date.now() / 1_000) - anHour),
    ],
    [
      "signed an hour from now",
      "timestamp",
      reportOf(event("sms.delivered"), secret, Math.floor(Date.now() / 1_000) + anHour),
    ],
    [
      "without a time",
      "timestamp",
      { ...genuine, headers: { "webhook-signature": genuine.headers["webhook-signature"] } },
    ],
    [
      "with more signatures than anybody has",
      "signature",
      { ...genuine, headers: { "webhook-signature": "v1,A ".repeat(600) } },
    ],
  ])("%s is forged, for its %s", async (_, cause, request) => {
    expect(await bird().readReport?.(request)).toEqual({ kind: "forged", cause });
  });

  test("is never believed without a secret", async () => {
    expect(await bird({ webhookSecret: undefined }).readReport?.(genuine)).toEqual({
      kind: "forged",
      cause: "no secret",
    });
  });
});

describe("Bird examined", () => {
  const now = Date.UTC(2026, 0, 1, 12, 0, 0);
  const date = (ms: number) => ({ date: new Date(now + ms).toUTCString() });
  test.each<[string, Reply, { ok: boolean; sentence: string }[]]>([
    [
      "takes the key",
      { status: 200, headers: date(0), body: { data: [] } },
      [
        { ok: true, sentence: "Bird accepts the API key." },
        { ok: true, sentence: "The clock agrees with Bird's." },
      ],
    ],
    [
      "refuses the key",
      { status: 401, headers: date(0) },
      [
        { ok: false, sentence: "Bird does not accept OTP_BIRD_API_KEY." },
        { ok: true, sentence: "The clock agrees with Bird's." },
      ],
    ],
    [
      "has another time",
      { status: 200, headers: date(-95_000), body: { data: [] } },
      [
        { ok: true, sentence: "Bird accepts the API key." },
        { ok: false, sentence: "The clock is 95 s ahead of Bird's: set it by NTP." },
      ],
    ],
    [
      "is out of order",
      { status: 500, headers: date(31_000) },
      [
        { ok: false, sentence: "Bird answers HTTP 500 when asked for messages." },
        { ok: false, sentence: "The clock is 31 s behind Bird's: set it by NTP." },
      ],
    ],
    [
      "breaks the connection",
      oddReplies.reset,
      [{ ok: false, sentence: "Bird cannot be reached: it broke off the connection." }],
    ],
  ])("%s", async (_, reply, findings) => {
    farEnd.reply = reply;
    expect(await bird({ now: () => now }).examine?.()).toEqual(findings);
  });
});

test.each(["bk_eu_abc", "bk_eu1_", "bk_eu1", "live_abc"])("a key of Bird's names its region, as %s does not", (key) => {
  const complete = { OTP_PROVIDERS: "bird", OTP_BIRD_ORIGINATOR: "Acme", OTP_ALLOWED_COUNTRIES: "NL" };
  expect(faultsOf({ ...complete, OTP_BIRD_API_KEY: key })).toEqual([
    "OTP_BIRD_API_KEY must begin with bk_, a region and _, as bk_eu1_ does.",
  ]);
  expect(faultsOf({ ...complete, OTP_BIRD_API_KEY: "bk_eu1_abc" })).toEqual([]);
});
