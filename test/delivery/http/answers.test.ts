/**
 * What a declared provider's answers mean: by the rules of its declaration, against a server that answers as it should and as
 * none should. What no rule describes may have been sent.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { lookUpPrivate } from "../../../src/delivery/providers/http/address.ts";
import { lookUp } from "../../../src/delivery/providers/http/pointer.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import { deadOrigin, oddReplies, startFarEnd, type FarEnd, type Reply } from "../../support/fakes/far-end.ts";
import { lacks } from "../../support/machine.ts";
import { makeCertificate } from "../../support/network/certificate.ts";
import { declared, patience, sms } from "./setup.ts";

let farEnd: FarEnd;
beforeAll(async () => {
  farEnd = await startFarEnd({ status: 200 });
});
afterAll(() => farEnd.stop());
beforeEach(() => void farEnd.asked.splice(0));

async function outcomeOf(rules: object, reply: Reply): Promise<SendOutcome> {
  farEnd.reply = reply;
  const signal = patience();
  const told: string[] = [];
  const outcome = await declared({ url: farEnd.url, ...rules }).send(sms, signal, (status) => told.push(`${status}`));
  expect({ asked: farEnd.asked.length, tooLate: signal.aborted }).toEqual({ asked: 1, tooLate: false });
  // The status is told of each answer that has one, also where the rest never comes.
  const status = outcome.kind === "accepted" ? told : (/(?<=^HTTP )\d+/.exec(outcome.detail) ?? []);
  expect(told).toEqual([...status].slice(0, 1));
  return outcome;
}

const ambiguous = (status: number, more = ""): SendOutcome => ({ kind: "ambiguous", detail: `HTTP ${status}${more}` });
const refused = (cause: "recipient" | "credentials" | "balance" | "content", detail: string): SendOutcome => ({
  kind: "refused",
  cause,
  detail,
});

const byPointer = {
  accepted: { status: [200], pointer: "/result/state", equals: ["queued", 0] },
  id: "/result/id",
  refused: [
    { status: [200, 400], pointer: "/error", equals: ["bad_number", 21_211], cause: "recipient" },
    { status: [400], pointer: "/error", equals: ["text"], cause: "content" },
    { status: [401], cause: "credentials" },
    { status: [402], cause: "balance" },
    { status: [429], cause: "throttled", retry_after: "/wait" },
    { status: [503], cause: "throttled", retry_after: 20 },
  ],
};

describe("an answer in JSON, by pointer", () => {
  test.each<[string, Reply, SendOutcome]>([
    [
      "taken",
      { status: 200, body: { result: { state: "queued", id: "m-1" } } },
      { kind: "accepted", providerMessageId: "m-1" },
    ],
    [
      "behind a byte order mark",
      { status: 200, body: '\uFEFF{"result":{"state":"queued","id":"m-1"}}' },
      { kind: "accepted", providerMessageId: "m-1" },
    ],
    [
      "a number for a name",
      { status: 200, body: { result: { state: "0", id: 7 } } },
      { kind: "accepted", providerMessageId: "7" },
    ],
    [
      "a number for a name that is larger than 2^53",
      { status: 200, body: '{"result":{"state":"queued","id":12345678901234567890}}' },
      { kind: "accepted", providerMessageId: "12345678901234567890" },
    ],
    ["without an id", { status: 200, body: { result: { state: "queued" } } }, { kind: "accepted" }],
    ["another word", { status: 200, body: { result: { state: "maybe", id: "m-1" } } }, ambiguous(200)],
    ["another status", { status: 202, body: { result: { state: "queued" } } }, ambiguous(202)],
    ["a word elsewhere", { status: 200, body: { state: "queued" } }, ambiguous(200)],
    ["an object where a word should be", { status: 200, body: { result: { state: ["queued"] } } }, ambiguous(200)],
    ["no JSON", { status: 200, body: "queued" }, ambiguous(200)],
    ["nothing", { status: 200 }, ambiguous(200)],
    ["null", { status: 200, body: "null" }, ambiguous(200)],
    [
      "a refusal with the status of success",
      { status: 200, body: { error: "bad_number", result: { state: "queued" } } },
      refused("recipient", "HTTP 200: bad_number"),
    ],
    ["a refusal by number", { status: 400, body: { error: 21_211 } }, refused("recipient", "HTTP 400: 21211")],
    ["another refusal", { status: 400, body: { error: "text" } }, refused("content", "HTTP 400: text")],
    ["a refusal that nobody described", { status: 400, body: { error: `no: ${sms.to}` } }, ambiguous(400)],
    ["401", { status: 401 }, refused("credentials", "HTTP 401")],
    ["402", { status: 402, body: "{" }, refused("balance", "HTTP 402")],
    [
      "429 that says how long",
      { status: 429, body: { wait: "7.5" } },
      { kind: "throttled", detail: "HTTP 429", retryAfterMs: 7_500 },
    ],
    [
      "429 with a header",
      { status: 429, headers: { "retry-after": "9" }, body: {} },
      { kind: "throttled", detail: "HTTP 429", retryAfterMs: 9_000 },
    ],
    ["429 that says nonsense", { status: 429, body: { wait: "soon" } }, { kind: "throttled", detail: "HTTP 429" }],
    [
      "429 for ever",
      { status: 429, body: { wait: 1e12 } },
      { kind: "throttled", detail: "HTTP 429", retryAfterMs: 86_400_000 },
    ],
    [
      "503 with the file's own wait, of the account",
      { status: 503 },
      { kind: "throttled", detail: "HTTP 503", retryAfterMs: 20_000 },
    ],
    ["403", { status: 403 }, ambiguous(403)],
    ["404", { status: 404 }, ambiguous(404)],
    ["500", { status: 500, body: { result: { state: "queued" } } }, ambiguous(500)],
    ["a redirect", { status: 302, headers: { location: "/elsewhere" } }, ambiguous(302)],
    ["an answer without an end", oddReplies.endless, ambiguous(200, ", no answer")],
    ["half an answer", oddReplies.cut, ambiguous(200, ", no answer")],
    [
      "more than 16 KiB",
      { status: 200, body: { result: { state: "queued" }, pad: "x".repeat(16_384) } },
      ambiguous(200, ", no answer"),
    ],
    ["a reset connection", oddReplies.reset, { kind: "ambiguous", detail: "the connection ended without an answer" }],
  ])("%s", async (_, reply, outcome) => {
    expect(await outcomeOf(byPointer, reply)).toEqual(outcome);
  });

  test.each(["/constructor", "/__proto__", "/toString", "/result/length"])(
    "%s is nothing of an answer's own",
    async (pointer) => {
      const reply = { status: 200, body: { result: "queued" } };
      expect(await outcomeOf({ accepted: { status: [200], pointer } }, reply)).toEqual(ambiguous(200));
    },
  );

  test("an own property of any name is found, and a part of a list", () => {
    const value = JSON.parse('{"__proto__":{"a/b":["x","y"]},"~":1}') as unknown;
    expect([lookUp(value, "/__proto__/a~1b/1"), lookUp(value, "/~0"), lookUp(value, "/__proto__/a~1b/2")]).toEqual([
      "y",
      1,
      undefined,
    ]);
  });
});

test.each([
  ["with the protocol's name", oddReplies.switched],
  ["without it", oddReplies.switching],
])("an answer that goes over to another protocol, %s, is not waited for", async (_, reply) => {
  expect(await outcomeOf(byPointer, reply)).toEqual(ambiguous(101));
});

describe("an answer by its status alone needs no more than that", () => {
  const rules = { accepted: { status: [200, 202] }, id: "/id", refused: [{ status: [400], cause: "recipient" }] };
  test.each<[string, Reply, SendOutcome]>([
    ["with an id", { status: 202, body: { id: "m-1" } }, { kind: "accepted", providerMessageId: "m-1" }],
    ["that is no JSON", { status: 200, body: "OK" }, { kind: "accepted" }],
    ["without an end", oddReplies.endless, { kind: "accepted" }],
    ["that breaks off", oddReplies.cut, { kind: "accepted" }],
    ["that dawdles", oddReplies.dawdle, { kind: "accepted" }],
    ["refused", { status: 400, body: "whatever" }, refused("recipient", "HTTP 400")],
    ["500", { status: 500 }, ambiguous(500)],
  ])("%s", async (_, reply, outcome) => {
    expect(await outcomeOf(rules, reply)).toEqual(outcome);
  });
});

describe("an answer in text, by match", () => {
  const rules = {
    accepted: { status: [200], match: ["^OK", "^queued$"] },
    refused: [
      { status: [200], match: ["ERR 21"], cause: "recipient" },
      { status: [200], match: ["(broke)$"], cause: "balance" },
    ],
  };
  test.each<[string, SendOutcome]>([
    ["OK: 17", { kind: "accepted" }],
    ["  OK\r\n", { kind: "accepted" }],
    ["queued", { kind: "accepted" }],
    ["queued later", ambiguous(200)],
    ["NOT OK", ambiguous(200)],
    ["ok", ambiguous(200)],
    ["it was ERR 21, sorry", refused("recipient", "HTTP 200")],
    ["ERR (broke)", refused("balance", "HTTP 200")],
    ["ERR (broke) and so on", ambiguous(200)],
    ["", ambiguous(200)],
  ])("%j", async (body, outcome) => {
    expect(await outcomeOf(rules, { status: 200, headers: { "content-type": "text/plain" }, body })).toEqual(outcome);
  });
});

test("an answer that says it is a form is read by its fields", async () => {
  const type = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
  const said = (body: string, headers = type) => outcomeOf(byPointer, { status: 400, headers, body });
  farEnd.asked.splice(0);
  expect(await said("error=bad_number&x=1")).toEqual(refused("recipient", "HTTP 400: bad_number"));
  farEnd.asked.splice(0);
  expect(await said("error=bad_number", { "content-type": "text/plain" })).toEqual(ambiguous(400));
});

describe("without an answer", () => {
  test("that is waited for until the signal, it may have been sent", async () => {
    const deadline = new AbortController();
    farEnd.reply = () => deadline.abort();
    const provider = declared({ url: farEnd.url });
    expect(await provider.send(sms, deadline.signal)).toMatchObject({ kind: "ambiguous" });
    expect(farEnd.asked).toHaveLength(1);
  });

  test("since nobody listens there, nothing was sent", async () => {
    const nowhere = declared({ url: await deadOrigin() });
    expect(await nowhere.send(sms, patience())).toEqual({ kind: "unavailable", detail: "no connection" });
  });

  test.skipIf(lacks("a gateway that nobody vouches for", "openssl"))(
    "since nobody vouches for its certificate, it was not asked",
    async () => {
      const stranger = await startFarEnd({ status: 200 }, makeCertificate("stranger"));
      try {
        const outcome = await declared({ url: stranger.url }).send(sms, patience());
        expect(outcome).toEqual({ kind: "unavailable", detail: "no connection" });
        expect(stranger.asked).toEqual([]);
      } finally {
        await stranger.stop();
      }
    },
  );

  test.each([
    ["127.0.0.1", null],
    ["10.1.2.3", null],
    ["fd12::1", null],
    ["8.8.8.8", "an address is public, and the URL is not https"],
    ["169.254.169.254", "an address is public, and the URL is not https"],
    ["2001:4860:4860::8888", "an address is public, and the URL is not https"],
  ])("over cleartext, a name at %s is connected to or not: %j", async (address, trouble) => {
    for (const all of [true, false]) {
      const { promise, resolve } = Promise.withResolvers<string | null>();
      lookUpPrivate(address, { all }, (error) => resolve(error?.message ?? null));
      expect(await promise).toBe(trouble);
    }
  });

  test("a connection is used again, and one more call is one more request", async () => {
    farEnd.reply = { status: 200 };
    const provider = declared({ url: farEnd.url });
    for (let i = 0; i < 3; i++) expect(await provider.send(sms, patience())).toEqual({ kind: "accepted" });
    expect(farEnd.asked).toHaveLength(3);
  });
});

test("doctor shows a request with its secrets masked, wherever they stand", async () => {
  const reports = {
    signature: { kind: "path", secret: "P" },
    reference: "?r",
    status: "?s",
    delivered: [1],
    undelivered: [2],
  };
  const secrets = { secret: "t0ps3cret", reportSecret: "p4thsecret" };
  for (const auth of [
    { kind: "basic", user: "u", secret: "S" },
    { kind: "basic", secret: "S" },
    { kind: "bearer", secret: "S" },
    { kind: "header", name: "Authorization", prefix: "App ", secret: "S" },
    { kind: "query", name: "key", secret: "S" },
  ]) {
    const body = { to: "{to}", text: "{text}", callback: "{report_url}" };
    const provider = declared({ url: "https://gw.example/v1?x=1", auth, body, reports }, secrets);
    const [finding, ...more] = (await provider.examine?.()) ?? [];
    expect(more).toEqual([]);
    expect(finding).toMatchObject({ ok: true });
    const { sentence = "" } = finding ?? {};
    expect(sentence).toMatch(/^A message to acme is POST https:\/\/gw\.example\/v1\?x=1/);
    expect(sentence).toContain("***");
    expect(sentence).toContain('"to":"+31612345678"');
    for (const secret of Object.values(secrets)) {
      expect(sentence).not.toContain(secret);
      expect(sentence).not.toContain(Buffer.from(`u:${secret}`).toString("base64").slice(0, 12));
    }
  }
});
