/**
 * The webhook against a server that answers as the documentation says one may, and as none should; and the receiver of
 * docs/providers.md, run as it stands.
 */
import type { ServerResponse } from "node:http";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { callsAtOnceMax } from "../../src/delivery/provider.ts";
import { createWebhookProvider } from "../../src/delivery/providers/webhook.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { converse, type Conversation } from "../support/processes/conversation.ts";
import {
  cutAnswer,
  deadOrigin,
  oddReplies,
  startFarEnd,
  type Asked,
  type FarEnd,
  type Reply,
} from "../support/fakes/far-end.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { sms as message } from "../support/data/messages.ts";
import { patience } from "./http/setup.ts";

/** The reference implementation of Standard Webhooks, which Bird's SDK brings along. */
const fromSdk = createRequire(import.meta.resolve("@messagebird/sdk"));
const standardWebhooksFolder = dirname(dirname(fromSdk.resolve("standardwebhooks")));
const { Webhook } = fromSdk("standardwebhooks") as {
  Webhook: new (secret: string) => { verify(body: string, headers: Record<string, string>): unknown };
};

let farEnd: FarEnd;
beforeAll(async () => {
  farEnd = await startFarEnd({ status: 204 });
});
afterAll(() => farEnd.stop());
beforeEach(() => void farEnd.asked.splice(0));

const secret = Buffer.alloc(32, 0x77);
const secretText = `whsec_${secret.toString("base64")}`;

function webhook(url = new URL("/sms?for=acme", farEnd.url), now = Date.now) {
  return createWebhookProvider({ url, secret, now });
}

const sms = { ...message, text: "123456 is your Acme code — één." };

function verified({ headers, body }: Asked, key = secretText): unknown {
  return new Webhook(key).verify(body, headers as Record<string, string>);
}

describe("a message to the webhook", () => {
  test("is posted to the URL as it stands, with what docs/providers.md shows", async () => {
    farEnd.reply = { status: 200, body: { id: "sm-1" } };
    const told: number[] = [];
    const outcome = await webhook().send(sms, patience(), (status) => told.push(status));
    expect({ outcome, told }).toEqual({ outcome: { kind: "accepted", providerMessageId: "sm-1" }, told: [200] });
    const [asked] = farEnd.asked;
    expect(asked).toMatchObject({ method: "POST", path: "/sms?for=acme" });
    expect(asked?.headers["content-type"]).toBe("application/json");
    const body = JSON.parse(asked?.body ?? "") as Record<string, unknown>;
    expect(body).toEqual({
      type: "sms.send",
      to: sms.to,
      country: "NL",
      text: sms.text,
      validity_seconds: 540,
      reference: sms.reference,
    });
    const [, example = ""] = /```json\n(.*?)```/s.exec(documentation) ?? [];
    expect(Object.keys(body)).toEqual(Object.keys(JSON.parse(example) as object));
  });

  test("is signed as Standard Webhooks prescribes: its own library verifies it, and nothing that was changed", async () => {
    farEnd.reply = { status: 204 };
    await webhook().send(sms, patience());
    const [asked] = farEnd.asked as [Asked];
    expect(verified(asked)).toMatchObject({ text: sms.text });
    const other = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
    expect(() => verified(asked, other)).toThrow(/signature/i);
    expect(() => verified({ ...asked, body: asked.body.replace("123456", "123457") })).toThrow(/signature/i);
    expect(() => verified({ ...asked, headers: { ...asked.headers, "webhook-id": "another" } })).toThrow(/signature/i);
  });

  test("is signed with the time of its own try, so that an old post cannot be played again", async () => {
    farEnd.reply = { status: 204 };
    await webhook(undefined, () => Date.now() - 600_000).send(sms, patience());
    expect(() => verified(farEnd.asked[0] as Asked)).toThrow(/too old/i);
  });

  test("has the same webhook-id at every try, and another message another", async () => {
    farEnd.reply = { status: 503 };
    await webhook().send(sms, patience());
    await webhook(undefined, () => Date.now() + 5_000).send(sms, patience());
    await webhook().send({ ...sms, reference: "AAAAAAAAAAAAAAAAAAAAAA.1" }, patience());
    const ids = farEnd.asked.map(({ headers }) => headers["webhook-id"]);
    expect(ids).toEqual([sms.reference, sms.reference, "AAAAAAAAAAAAAAAAAAAAAA.1"]);
    for (const asked of farEnd.asked) expect(verified(asked)).toMatchObject({ to: sms.to });
  });
});

const refused = (cause: "recipient" | "credentials" | "balance" | "content", status: number): SendOutcome => ({
  kind: "refused",
  cause,
  detail: `HTTP ${status}`,
});
const unanswered: SendOutcome = { kind: "ambiguous", detail: "the connection ended without an answer" };

describe("the webhook's answer, in one call", () => {
  test.each<[string, Reply, SendOutcome]>([
    ["200 with an id", { status: 200, body: { id: "sm-1" } }, { kind: "accepted", providerMessageId: "sm-1" }],
    ["an id that is no text", { status: 200, body: { id: 7 } }, { kind: "accepted" }],
    ["204", { status: 204 }, { kind: "accepted" }],
    ["202 that is no JSON", { status: 202, body: "queued" }, { kind: "accepted" }],
    ["200 that is null", { status: 200, body: "null" }, { kind: "accepted" }],
    ["an answer without an end: its status is read", oddReplies.endless, { kind: "accepted" }],
    ["half an answer: its status is read", oddReplies.cut, { kind: "accepted" }],
    ["an answer that dawdles: its status is read", oddReplies.dawdle, { kind: "accepted" }],
    ["409, taken before", { status: 409 }, { kind: "accepted" }],
    ["400", { status: 400 }, refused("content", 400)],
    ["422", { status: 422, body: { reason: "text" } }, refused("content", 422)],
    ["422 about the recipient", { status: 422, body: { reason: "recipient" } }, refused("recipient", 422)],
    ["400 about the recipient", { status: 400, body: { reason: "recipient" } }, refused("recipient", 400)],
    ["401", { status: 401 }, refused("credentials", 401)],
    ["403", { status: 403 }, refused("credentials", 403)],
    ["402", { status: 402 }, refused("balance", 402)],
    [
      "429 with a wait",
      { status: 429, headers: { "retry-after": "7" } },
      { kind: "throttled", detail: "HTTP 429", retryAfterMs: 7_000 },
    ],
    ["429 without one", { status: 429 }, { kind: "throttled", detail: "HTTP 429" }],
    [
      "429 with a wait that is no number",
      { status: 429, headers: { "retry-after": "-1" } },
      { kind: "throttled", detail: "HTTP 429" },
    ],
    ["404", { status: 404 }, { kind: "unavailable", detail: "HTTP 404" }],
    ["410", { status: 410 }, { kind: "unavailable", detail: "HTTP 410" }],
    ["500", { status: 500 }, { kind: "ambiguous", detail: "HTTP 500" }],
    ["503", { status: 503, body: { id: "sm-1" } }, { kind: "ambiguous", detail: "HTTP 503" }],
    ["a reset connection", oddReplies.reset, unanswered],
  ])("%s", async (_, reply, outcome) => {
    farEnd.reply = reply;
    const signal = patience();
    expect(await webhook().send(sms, signal)).toEqual(outcome);
    expect(signal.aborted).toBe(false);
    expect(farEnd.asked).toHaveLength(1);
  });

  test("a redirect is not followed: the text goes nowhere else, and was not sent", async () => {
    for (const status of [301, 302, 307, 308]) {
      farEnd.asked.splice(0);
      farEnd.reply = { status, headers: { location: "/elsewhere" } };
      expect(await webhook().send(sms, patience())).toEqual({ kind: "unavailable", detail: `HTTP ${status}` });
      expect(farEnd.asked).toHaveLength(1);
    }
  });

  test("that never comes is waited for until the signal", async () => {
    const deadline = new AbortController();
    farEnd.reply = () => deadline.abort(new Error("the worker's deadline"));
    expect(await webhook().send(sms, deadline.signal)).toEqual(unanswered);
    expect(farEnd.asked).toHaveLength(1);
  });

  test("where nobody listens, nothing was sent", async () => {
    const nowhere = webhook(new URL(await deadOrigin()));
    expect(await nowhere.send(sms, patience())).toEqual({ kind: "unavailable", detail: "no connection" });
  });

  test.each([400, 422])("%i refuses, also where it breaks off or is too large to be read", async (status) => {
    farEnd.reply = cutAnswer(status);
    expect(await webhook().send(sms, patience())).toEqual(refused("content", status));
    farEnd.reply = { status, body: "x".repeat(20_000) };
    expect(await webhook().send(sms, patience())).toEqual(refused("content", status));
  });

  test("is awaited by as many at once as a worker has under way", async () => {
    const waiting: ServerResponse[] = [];
    const all = Promise.withResolvers<void>();
    farEnd.reply = (response) => {
      waiting.push(response);
      if (waiting.length === callsAtOnceMax) all.resolve();
    };
    const provider = webhook();
    const outcomes = Array.from({ length: callsAtOnceMax }, () => provider.send(sms, patience()));
    await all.promise;
    for (const response of waiting) response.writeHead(204).end();
    expect(new Set((await Promise.all(outcomes)).map(({ kind }) => kind))).toEqual(new Set(["accepted"]));
  });

  test.skipIf(lacks("a certificate that nobody vouches for", "openssl"))(
    "from a certificate that nobody vouches for is not asked for: nothing was sent",
    async () => {
      const stranger = await startFarEnd({ status: 204 }, makeCertificate("stranger"));
      try {
        const outcome = await webhook(new URL(stranger.url)).send(sms, patience());
        expect(outcome).toEqual({ kind: "unavailable", detail: "no connection" });
        expect(stranger.asked).toEqual([]);
      } finally {
        await stranger.stop();
      }
    },
  );
});

test.each([
  ["https://sms.example.com/otp", true],
  ["http://127.0.0.1:8090/", true],
  ["http://localhost:8090/", true],
  ["http://sms.example.com/otp", false],
])("examined, %s is safe: %s", async (url, ok) => {
  expect(await webhook(new URL(url)).examine?.()).toMatchObject([{ ok }]);
});

// ---- the receiver of the documentation ------------------------------------------------------------------------------

const documentation = readFileSync(new URL("../../docs/providers.md", import.meta.url), "utf8");

/** What `twilio` offers of itself to the receiver: it tells what it was asked, and fails as it is told by the number. */
const twilioStandIn = `
const make = () => ({ messages: { async create(message) {
  console.log(JSON.stringify(message));
  const status = { "+31611111400": 400, "+31611111429": 429, "+31611111500": 500 }[message.to];
  if (status !== undefined) throw Object.assign(new Error("no"), { status });
  if (message.to === "+31611111000") throw new Error("the connection ended");
  return { sid: "SM1" };
} } });
// What an ES module gives out under the name that import without braces asks for.
export { make as ${["def", "ault"].join("")} };
`;

describe("the receiver of docs/providers.md", () => {
  let folder: string;
  let url: URL;
  let receiver: Conversation;
  const heard = async () => JSON.parse(await receiver.heard()) as unknown;

  beforeAll(async () => {
    folder = temporaryFolder();
    const [, script = ""] = /```js\n(.*?)```/s.exec(documentation) ?? [];
    // The one change: a free port, and word of it.
    const shown = 'listen(0, "127.0.0.1", function () { console.log(this.address().port); })';
    if (!script.includes("listen(8090)")) throw new Error("the documentation's receiver listens elsewhere");
    writeFileSync(join(folder, "receiver.mjs"), script.replace("listen(8090)", shown));
    mkdirSync(join(folder, "node_modules/twilio"), { recursive: true });
    writeFileSync(join(folder, "node_modules/twilio/index.mjs"), twilioStandIn);
    writeFileSync(join(folder, "node_modules/twilio/package.json"), '{"name":"twilio","exports":"./index.mjs"}');
    symlinkSync(standardWebhooksFolder, join(folder, "node_modules/standardwebhooks"));
    receiver = converse(process.execPath, ["receiver.mjs"], folder, { OTP_WEBHOOK_SECRET: secretText });
    url = new URL(`http://127.0.0.1:${await receiver.heard()}/`);
  });
  afterAll(async () => {
    await receiver.end();
    rmSync(folder, { recursive: true });
  });

  test("hands a message on, and its id back", async () => {
    expect(await webhook(url).send(sms, patience())).toEqual({ kind: "accepted", providerMessageId: "SM1" });
    expect(await heard()).toEqual({ to: sms.to, body: sms.text, from: "+15551234567" });
  });

  test.each<[string, string, SendOutcome]>([
    ["a refusal", "+31611111400", refused("content", 400)],
    ["a throttle", "+31611111429", { kind: "throttled", detail: "HTTP 429" }],
    ["a failure", "+31611111500", { kind: "ambiguous", detail: "HTTP 500" }],
    ["a lost connection, which proves nothing", "+31611111000", { kind: "ambiguous", detail: "HTTP 500" }],
  ])("brings %s of the gateway's back", async (_, to, outcome) => {
    expect(await webhook(url).send({ ...sms, to: to as E164 }, patience())).toEqual(outcome);
    expect(await heard()).toMatchObject({ to });
  });

  test("sends nothing that was not signed by us", async () => {
    const stranger = createWebhookProvider({ url, secret: Buffer.alloc(32, 1), now: Date.now });
    expect(await stranger.send(sms, patience())).toEqual(refused("credentials", 401));
    // A message after it: what the first one led to would be said before.
    const next = "+31611111400" as E164;
    await webhook(url).send({ ...sms, to: next }, patience());
    expect(await heard()).toMatchObject({ to: next });
  });
});
