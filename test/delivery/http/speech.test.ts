/**
 * Calls that wait for a key: the code is not in what asks for the call, is told to whoever signs as the provider once a key
 * was pressed, and to nobody else.
 */
import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { jwtVerify } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readHttpProviders } from "../../../src/delivery/providers/http/file.ts";
import { createHttpProvider } from "../../../src/delivery/providers/http/provider.ts";
import { createRequests } from "../../../src/delivery/providers/http/request.ts";
import { privateKeyOf } from "../../../src/delivery/providers/http/token.ts";
import type { OutgoingMessage, Provider } from "../../../src/delivery/provider.ts";
import { surfaces } from "../../support/clients/surfaces.ts";
import { twilioPost, vonageKeys, vonagePost, type SentReport } from "../../support/data/channel-presets.ts";
import { manuals } from "../../support/data/presets.ts";
import { newPhone } from "../../support/data/phones.ts";
import { startWorld, type World } from "../../support/service/world.ts";
import { patience, publicUrl, sms } from "./setup.ts";

const called: OutgoingMessage[] = [];
let world: World;
beforeAll(async () => {
  const entry = { preset: "twilio-voice", ...manuals["twilio-voice"].entry };
  const [declaration] = readHttpProviders(JSON.stringify({ providers: [entry] }), []).declarations;
  if (declaration === undefined) throw new Error("there is no declaration");
  const secrets = { secret: "auth-token", reportSecret: "auth-token" };
  const real = createHttpProvider({ declaration, ...secrets, publicUrl, originators: new Map(), now: Date.now });
  // The far end alone is another.
  const provider: Provider = {
    ...real,
    async send(message) {
      called.push(message);
      return { kind: "accepted", providerMessageId: `CA${called.length}` };
    },
  };
  world = await startWorld({ OTP_BRAND: "A&B" }, undefined, { voice: [provider] });
});
afterAll(() => world.stop());

const [rest] = surfaces;
const call = async (rpc: "SendOtp" | "CancelOtp" | "GetOtp", message: Record<string, string>) => {
  const outcome = await rest?.call(world.url, rpc, message, { key: world.key });
  return outcome?.value ?? {};
};
const post = async ({ target, headers, body }: SentReport) => {
  const answer = await fetch(world.url + target, { method: "POST", headers, body });
  return { status: answer.status, type: answer.headers.get("content-type"), text: await answer.text() };
};
const pressed = (reference: string, digits = "1") =>
  twilioPost(`/webhooks/twilio-voice?speak=${reference}`, { CallSid: "CA1", Digits: digits });

async function begin(channel = "voice") {
  const phone = newPhone();
  const { request_id } = await call("SendOtp", { phone, channel });
  const message =
    called.findLast(({ to }) => to === phone) ?? world.network.received.findLast(({ to }) => to === phone);
  if (message === undefined) throw new Error("nothing was sent");
  return { request_id: String(request_id), ...message };
}

describe("a call", () => {
  test("is told the code after a key was pressed, in words, as XML has them", async () => {
    const { reference, code, text } = await begin();
    const { status, type, text: said } = await post(pressed(reference));
    expect([status, type]).toEqual([200, expect.stringContaining("text/xml")]);
    expect(said).toBe(`<Response><Say language="nl-NL">${text.replace("A&B", "A&amp;B")}</Say></Response>`);
    expect(said).not.toContain(code);
    expect(said.match(/één|twee|drie|vier|vijf|zes|zeven|acht|negen|nul/g)?.length).toBe(12);
  });

  test("is told it again while the code is good, and no more once it is not", async () => {
    const { reference, request_id } = await begin();
    for (const _ of [1, 2]) expect((await post(pressed(reference))).status).toBe(200);
    await call("CancelOtp", { request_id });
    const over = await post(pressed(reference));
    expect(over.status).toBe(404);
    expect(over.text).not.toContain("Say");
  });

  test("is told nothing of what was texted, nor of what there is none of", async () => {
    const { reference } = await begin("sms");
    expect((await post(pressed(reference))).status).toBe(404);
    expect((await post(pressed("AAAAAAAAAAAAAAAAAAAAAA.0"))).status).toBe(404);
    expect((await post(pressed("x"))).status).toBe(404);
  });

  test("is told nothing that its provider did not sign", async () => {
    const { reference } = await begin();
    const { reference: other } = await begin();
    const { headers, body, target } = pressed(reference);
    const { "x-twilio-signature": _, ...unsigned } = headers;
    const forged = [
      { target, headers: unsigned, body },
      { target, headers, body: body.replace("Digits=1", "Digits=2") },
      // The signature of one call asks for another's code.
      { target: pressed(other).target, headers, body },
    ];
    for (const each of forged) {
      const { status, text } = await post(each);
      expect([status, text.includes("Say")]).toEqual([401, false]);
    }
  });

  test("has a report as any message has, and a key that was pressed is none", async () => {
    const { reference, request_id } = await begin();
    await post(pressed(reference));
    expect(await call("GetOtp", { request_id })).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
    const target = `/webhooks/twilio-voice?reference=${reference}`;
    const id = String((await call("GetOtp", { request_id }))["provider"]);
    expect(id).toBe("twilio-voice");
    const said = twilioPost(target, { CallStatus: "no-answer", CallSid: `CA${called.length}` });
    expect((await post(said)).status).toBe(200);
    expect(await call("GetOtp", { request_id })).toMatchObject({ delivery: "DELIVERY_UNDELIVERED" });
  });
});

test("without a public URL nobody is called: no call could ask what it says", async () => {
  const entry = { preset: "twilio-voice", ...manuals["twilio-voice"].entry };
  const [declaration] = readHttpProviders(JSON.stringify({ providers: [entry] }), []).declarations;
  if (declaration === undefined) throw new Error("there is no declaration");
  const secrets = { secret: "auth-token", reportSecret: "auth-token", publicUrl: undefined };
  const provider = createHttpProvider({ declaration, ...secrets, originators: new Map(), now: Date.now });
  const { message } = manuals["twilio-voice"];
  if (message === undefined) throw new Error("there is no message");
  expect(await provider.send(message, patience())).toMatchObject({
    kind: "refused",
    cause: "content",
  });
});

describe("an entry with speech", () => {
  const [, twilio] = [0, { preset: "twilio-voice", ...manuals["twilio-voice"].entry }];
  const faultsOf = (change: object) =>
    readHttpProviders(JSON.stringify({ providers: [{ ...twilio, ...change }] }), []).faults;

  test("is sound as it is", () => expect(faultsOf({})).toEqual([]));

  test.each<[object, string]>([
    [{ channel: "sms" }, "/providers/0/speech is for the channel voice alone"],
    [
      { speech: { type: "xml", body: "{text}" } },
      "/providers/0/speech/body must be XML: a text that begins with a tag",
    ],
    [
      { speech: { type: "json", body: { say: "{nothing}" } } },
      "/providers/0/speech/body/say has the unknown placeholder {nothing}",
    ],
    [{ reports: null }, "/providers/0/reports is missing: speech is asked for where they come to"],
    [
      { body: { To: "{to}", Twiml: "<Say>{text}</Say>", Action: "{speech_url}", From: "{from}" } },
      "/providers/0/body/Twiml must not hold {text}: with speech it is said after a key was pressed",
    ],
    [
      { body: { To: "{to}", Twiml: "<Say>{prompt}</Say>", From: "{from}" } },
      "/providers/0/body must hold {speech_url}: nobody would ask for the speech",
    ],
  ])("%j is told of", (change, fault) => {
    expect(faultsOf(change)).toContainEqual(expect.stringContaining(fault));
  });
});

describe("a handshake", () => {
  const [declaration] = readHttpProviders(
    JSON.stringify({ providers: [{ preset: "meta-whatsapp", ...manuals["meta-whatsapp"].entry }] }),
    [],
  ).declarations;
  const greet = (query: string, method = "GET") => {
    if (declaration === undefined) throw new Error("there is no declaration");
    const secrets = { secret: "EAAJ", reportSecret: "app-secret", handshakeSecret: "v3rify" };
    const provider = createHttpProvider({ declaration, ...secrets, publicUrl, originators: new Map(), now: Date.now });
    const target = `/webhooks/meta-whatsapp?${query}`;
    return provider.readReport?.({ method, target, headers: {}, body: new Uint8Array() });
  };

  test("that brings the secret hears its challenge", async () => {
    const asked = "hub.mode=subscribe&hub.verify_token=v3rify&hub.challenge=1158201444";
    expect(await greet(asked)).toEqual({ kind: "greeted", challenge: "1158201444" });
  });

  test.each([
    ["another secret", "hub.verify_token=other&hub.challenge=1"],
    ["none", "hub.challenge=1"],
    ["an empty one", "hub.verify_token=&hub.challenge=1"],
    ["a challenge that is a page", "hub.verify_token=v3rify&hub.challenge=%3Cscript%3E"],
    ["no challenge", "hub.verify_token=v3rify"],
  ])("with %s is forged", async (_, query) => {
    expect(await greet(query)).toEqual({ kind: "forged", cause: "unsigned" });
  });

  test("is a GET", async () => {
    expect(await greet("hub.verify_token=v3rify&hub.challenge=1", "POST")).toEqual({
      kind: "forged",
      cause: "unsigned",
    });
  });
});

describe("a call of Vonage's, whose JWT signs the body", () => {
  const [declaration] = readHttpProviders(
    JSON.stringify({ providers: [{ preset: "vonage-voice", ...manuals["vonage-voice"].entry }] }),
    [],
  ).declarations;
  if (declaration === undefined) throw new Error("there is no declaration");
  const secrets = { secret: vonageKeys.privateKey, reportSecret: "signature-secret" };
  const provider = createHttpProvider({ declaration, ...secrets, publicUrl, originators: new Map(), now: Date.now });
  const ask = async (dtmf: object, reference = "A.0") => {
    const { target, headers, body } = await vonagePost(`/webhooks/vonage-voice?speak=${reference}`, {
      uuid: "1",
      dtmf,
    });
    return { method: "POST", target, headers, body: Buffer.from(body) };
  };
  const read = async (request: Awaited<ReturnType<typeof ask>>) => provider.readReport?.(request);

  test("is told the code after a key was pressed, and nothing where none was", async () => {
    const reading = await read(await ask({ digits: "1", timed_out: false }));
    if (reading?.kind !== "asked") throw new Error(`not asked: ${reading?.kind}`);
    expect(reading.reference).toBe("A.0");
    const { type, body } = reading.answer({ ...sms, channel: "voice", locale: "nl-NL", text: 'een, "twee"' });
    expect(type).toBe("application/json");
    expect(JSON.parse(body)).toEqual([{ action: "talk", text: 'een, "twee"', language: "nl-NL" }]);
    for (const dtmf of [{ digits: "", timed_out: true }, { digits: null }, {}, { digits: ["1"] }]) {
      expect(await read(await ask(dtmf))).toEqual({ kind: "irrelevant" });
    }
  });

  test("is told nothing for a key that was not signed", async () => {
    const timedOut = await ask({ digits: "", timed_out: true });
    const pressedBy = await ask({ digits: "1", timed_out: false });
    expect(await read({ ...timedOut, body: pressedBy.body })).toEqual({ kind: "forged", cause: "signature" });
  });

  test("is asked for with a JWT of its own, which the application's public key proves, and says no more than it has to", async () => {
    const now = 1_790_000_000_000;
    const requestOf = createRequests(declaration, {
      secret: vonageKeys.privateKey,
      originators: new Map(),
      reportUrl: `${publicUrl}/webhooks/vonage-voice`,
      now: () => now,
    });
    const tokens = ["A.0", "B.0"].map((reference) => {
      const sent = requestOf({ ...sms, channel: "voice", prompt: "Hi", reference });
      return String(sent?.headers["authorization"]).replace("Bearer ", "");
    });
    const proven = await Promise.all(
      tokens.map((token) =>
        jwtVerify(token, createPublicKey(vonageKeys.publicKey), { algorithms: ["RS256"], currentDate: new Date(now) }),
      ),
    );
    expect(proven.map(({ protectedHeader }) => protectedHeader)).toEqual(
      tokens.map(() => ({ alg: "RS256", typ: "JWT" })),
    );
    const iat = now / 1_000;
    const jti = expect.stringMatching(/^[\w-]{43}$/) as unknown;
    for (const { payload } of proven)
      expect(payload).toEqual({ application_id: "aaaa-bbbb", iat, exp: iat + 300, jti });
    expect(new Set(proven.map(({ payload }) => payload.jti)).size).toBe(2);
  });

  test("is shown by doctor with its key masked", async () => {
    const [finding] = (await provider.examine?.()) ?? [];
    expect(finding?.ok).toBe(true);
    expect(finding?.sentence).toContain("authorization: Bearer ***");
    expect(finding?.sentence).not.toContain("PRIVATE");
  });
});

describe("a private key", () => {
  const make = (modulusLength: number) =>
    generateKeyPairSync("rsa", { modulusLength }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const pem = vonageKeys.privateKey;
  test.each<[string, string, boolean]>([
    ["as it is", pem, true],
    ["on one line", pem.replaceAll("\n", "\\n"), true],
    ["of 1024 bits", make(1_024), false],
    [
      "of another kind",
      generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
      false,
    ],
    ["that is public", vonageKeys.publicKey, false],
    ["that is none", "s3cret", false],
  ])("%s", (_, text, isGood) => expect(privateKeyOf(text) !== undefined).toBe(isGood));
});
