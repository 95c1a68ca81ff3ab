/**
 * The MessageBird adapter against a fake of the API over real HTTPS: each thing that the `messagebird` package gets
 * wrong by itself, and whose reports are believed.
 */
import { rmSync } from "node:fs";
import https from "node:https";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createMessageBirdProvider } from "../../../src/delivery/providers/messagebird.ts";
import { callsAtOnceMax, type Provider } from "../../../src/delivery/provider.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import type { Behaviour } from "../../support/fakes/provider.ts";
import { certificateIn } from "../../support/network/certificate.ts";
import { publicUrl, signingKey, signReport, startFake, trust, type Fake } from "./setup.ts";
import { sms } from "../../support/data/messages.ts";

const folder = temporaryFolder();
let fake: Fake;
let provider: Provider;

function connectTo(
  port: number,
  more: { signingKey?: string; publicUrl?: string } = { signingKey, publicUrl },
): Provider {
  return createMessageBirdProvider({
    accessKey: "live-key",
    originator: "Acme",
    originators: new Map([["US", "+15551112222"]]),
    publicUrl: more.publicUrl,
    signingKey: more.signingKey,
    baseUrl: new URL(`https://127.0.0.1:${port}`),
    now: () => Date.now(),
  });
}

/** A signal that never comes. */
const patience = () => new AbortController().signal;

beforeAll(async () => {
  const certificate = certificateIn(folder);
  trust(certificate);
  fake = await startFake("messagebird", certificate);
  provider = connectTo(fake.port);
});
afterAll(() => {
  fake.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a message is posted with its sender, reference, lifetime and report address", async () => {
  expect(await provider.send(sms, patience())).toEqual({
    kind: "accepted",
    providerMessageId: expect.stringMatching(/^m\d+$/),
  });
  const { body, headers } = (await fake.seen()).at(-1) ?? { body: {}, headers: {} };
  expect(body).toEqual({
    originator: "Acme",
    recipients: "31612345678",
    body: sms.text,
    reference: sms.reference,
    validity: 540,
    datacoding: "auto",
    reportUrl: `${publicUrl}/webhooks/messagebird`,
  });
  expect(headers).toMatchObject({ authorization: "AccessKey live-key", host: `127.0.0.1:${fake.port}` });
});

test("a call has the words, the voice of their language and our reference, and hangs up on a machine", async () => {
  const call = { ...sms, channel: "voice" as const, locale: "pt-BR", text: "O seu código é: um, dois." };
  expect(await provider.send(call, patience())).toMatchObject({ kind: "accepted" });
  const { path, body } = (await fake.seen()).at(-1) ?? {};
  expect(path).toBe("/voicemessages");
  // Letters call nobody, so the account's own number does.
  expect(body).toEqual({
    recipients: "31612345678",
    body: "O seu código é: um, dois.",
    reference: sms.reference,
    reportUrl: `${publicUrl}/webhooks/messagebird`,
    language: "pt-br",
    ifMachine: "hangup",
  });
  await provider.send({ ...call, region: "US" }, patience());
  expect((await fake.seen()).at(-1)?.body).toMatchObject({ originator: "+15551112222" });
});

test("a country can have a sender of its own", async () => {
  await provider.send({ ...sms, to: "+14155552671" as E164, region: "US" }, patience());
  expect((await fake.seen()).at(-1)?.body).toMatchObject({ originator: "+15551112222", recipients: "14155552671" });
});

test("without a public address, or without a key to check reports by, none is asked for", async () => {
  for (const more of [{ signingKey }, { publicUrl }]) {
    await connectTo(fake.port, more).send(sms, patience());
    expect((await fake.seen()).at(-1)?.body).not.toHaveProperty("reportUrl");
  }
});

// The package itself calls the 500, 429 and 302 without `errors` here successes.
const outcomes: [Behaviour, object][] = [
  ["accept, reset", { kind: "ambiguous" }],
  ["accept, 500", { kind: "ambiguous", detail: "HTTP 500: 99 server" }],
  ["500 without errors", { kind: "ambiguous", detail: "HTTP 500" }],
  ["401", { kind: "refused", cause: "credentials", detail: "HTTP 401: 2 access_key" }],
  ["402", { kind: "refused", cause: "balance", detail: "HTTP 402: 25 balance" }],
  ["404", { kind: "unavailable", detail: "HTTP 404: 20 resource" }],
  ["405", { kind: "unavailable", detail: "HTTP 405" }],
  ["422 recipient", { kind: "refused", cause: "recipient", detail: "HTTP 422: 9 recipients" }],
  ["422 originator", { kind: "refused", cause: "content", detail: "HTTP 422: 10 originator" }],
  ["429", { kind: "throttled", detail: "HTTP 429" }],
  ["429 wait", { kind: "throttled", detail: "HTTP 429", retryAfterMs: 30_000 }],
  ["302", { kind: "unavailable", detail: "HTTP 302" }],
  ["200 without id", { kind: "ambiguous", detail: "HTTP 200" }],
  ["200 no recipient", { kind: "ambiguous", detail: "HTTP 200" }],
  ["bad JSON", { kind: "ambiguous", detail: "HTTP 200" }],
  ["huge", { kind: "ambiguous", detail: "HTTP 200" }],
  ["reset", { kind: "ambiguous" }],
];
test.each(outcomes)("%s comes to what it is", async (behaviour, outcome) => {
  await fake.script(behaviour);
  const told: string[] = [];
  const came = await provider.send(sms, patience(), (status) => told.push(`${status}`));
  expect(came).toMatchObject(outcome);
  // The package hides the status: it is told of each answer that had one.
  expect(told).toEqual([...(/(?<=HTTP )\d+/.exec(JSON.stringify(came)) ?? [])]);
});

test.each<Behaviour>(["hang", "drip", "accept, no answer"])(
  "%s ends with the deadline, and is ambiguous",
  async (behaviour) => {
    await fake.script(behaviour);
    const deadline = new AbortController();
    const asked = fake.next();
    const sending = provider.send(sms, deadline.signal);
    await asked;
    // Time for a part of an answer to come, where any does.
    setTimeout(() => deadline.abort(), 300);
    expect(await sending).toMatchObject({ kind: "ambiguous" });
  },
);

test("an answer quotes neither the number nor the text", async () => {
  for (const [behaviour] of outcomes) {
    await fake.script(behaviour);
    const said = JSON.stringify(await provider.send(sms, patience()));
    expect(said).not.toMatch(/31612345678|123456/);
  }
});

test("as many calls as a worker has under way reach it at once", async () => {
  const before = (await fake.seen()).length;
  await fake.standing("hang");
  const deadline = new AbortController();
  const sending = Array.from({ length: callsAtOnceMax }, () => provider.send(sms, deadline.signal));
  await expect.poll(async () => (await fake.seen()).length - before, { timeout: 20_000 }).toBe(callsAtOnceMax);
  deadline.abort();
  expect(new Set((await Promise.all(sending)).map(({ kind }) => kind))).toEqual(new Set(["ambiguous"]));
  await fake.standing("accept");
});

test("400 calls share their connections and leave no listener behind", async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning.name);
  process.on("warning", onWarning);
  const free = () => Object.values(https.globalAgent.freeSockets).flat();
  await provider.send(sms, patience());
  const after1 = free().length;
  for (let i = 0; i < 39; i++) await provider.send(sms, patience());
  expect(free()).toHaveLength(after1);
  const many = await Promise.all(Array.from({ length: 360 }, () => provider.send(sms, patience())));
  process.off("warning", onWarning);
  expect(new Set(many.map(({ kind }) => kind))).toEqual(new Set(["accepted"]));
  for (const socket of free()) expect(socket?.listenerCount("timeout")).toBeLessThanOrEqual(2);
  expect(warnings).toEqual([]);
});

test("no connection, or one to a stranger, is proven not sent", async () => {
  const nobody = connectTo(1);
  https.globalAgent.destroy();
  expect(await nobody.send(sms, patience())).toEqual({ kind: "unavailable", detail: "no connection" });
  const stranger = await startFake("messagebird", certificateIn(temporaryFolder()));
  const outcome = await connectTo(stranger.port).send(sms, patience());
  const asked = await stranger.seen();
  stranger.stop();
  provider = connectTo(fake.port);
  expect(outcome).toEqual({ kind: "unavailable", detail: "no connection" });
  expect(asked).toEqual([]);
});

test("a call that waited for a kept connection, and has it reset under it, may have been sent", async () => {
  const { maxSockets } = https.globalAgent;
  https.globalAgent.maxSockets = 1;
  await fake.script("accept", "reset");
  const both = [1, 2].map(() => provider.send(sms, patience()));
  const waited = Object.values(https.globalAgent.requests).flat().length;
  const [first, second] = await Promise.all(both);
  https.globalAgent.maxSockets = maxSockets;
  expect(waited).toBe(1);
  expect(first).toMatchObject({ kind: "accepted" });
  expect(second).toMatchObject({ kind: "ambiguous" });
});

test("the balance tells whether the key is accepted", async () => {
  expect(await provider.examine?.()).toEqual(
    expect.arrayContaining([
      { ok: true, sentence: "MessageBird accepts the access key." },
      { ok: true, sentence: "The MessageBird balance is 9.2 credits." },
    ]),
  );
});

describe("a report", () => {
  const query = `id=m1&reference=${sms.reference}&recipient=31612345678&status=delivered&statusDatetime=2026-01-01T12%3A00%3A00%2B00%3A00`;
  const target = `/webhooks/messagebird?${query}`;
  const read = (jwt: string | undefined, { at = target, body = "", type = "" } = {}) =>
    provider.readReport?.({
      method: body === "" ? "GET" : "POST",
      target: at,
      headers: { "messagebird-signature-jwt": jwt, "content-type": type },
      body: Buffer.from(body),
    });

  test("of a GET is believed and read", async () => {
    expect(await read(await signReport(target))).toEqual({
      kind: "genuine",
      reports: [{ reference: sms.reference, providerMessageId: "m1", delivery: "DELIVERED", detail: undefined }],
    });
  });

  test.each([
    ["application/x-www-form-urlencoded", `reference=${sms.reference}&status=delivery_failed&statusErrorCode=1`],
    ["application/json", JSON.stringify({ reference: sms.reference, status: "delivery_failed", statusErrorCode: 1 })],
  ])("of a POST as %s is believed and read", async (type, body) => {
    const at = "/webhooks/messagebird";
    expect(await read(await signReport(at, body), { at, body, type })).toEqual({
      kind: "genuine",
      reports: [{ reference: sms.reference, providerMessageId: undefined, delivery: "UNDELIVERED", detail: "1" }],
    });
  });

  test.each(["constructor", "__proto__", "toString"])(
    "of the status %s, which every object has, says nothing",
    async (status) => {
      const at = target.replace("delivered", status);
      expect(await read(await signReport(at), { at })).toEqual({ kind: "irrelevant" });
    },
  );

  test("without a signature, or with another's, is forged", async () => {
    expect(await read(undefined)).toEqual({ kind: "forged", cause: "unsigned" });
    expect(await read("a.b.c")).toEqual({ kind: "forged", cause: "signature" });
    expect(await read(await signReport(target, "", { key: "another key" }))).toEqual({
      kind: "forged",
      cause: "signature",
    });
    expect(await read(await signReport(target, "", { issuer: "Somebody" }))).toEqual({
      kind: "forged",
      cause: "signature",
    });
  });

  test("that never expires, or has, is forged", async () => {
    expect(await read(await signReport(target, "", { expires: false }))).toEqual({
      kind: "forged",
      cause: "signature",
    });
    expect(await read(await signReport(target, "", { now: Date.now() - 120_000 }))).toEqual({
      kind: "forged",
      cause: "timestamp",
    });
  });

  test("about another address or another body is forged", async () => {
    const jwt = await signReport(target);
    expect(await read(jwt, { at: target.replace("delivered", "expired") })).toEqual({
      kind: "forged",
      cause: "signature",
    });
    expect(await read(jwt, { body: "status=delivered" })).toEqual({ kind: "forged", cause: "signature" });
    expect(
      await read(await signReport("/webhooks/messagebird", "a=1"), { at: "/webhooks/messagebird", body: "a=2" }),
    ).toEqual({
      kind: "forged",
      cause: "signature",
    });
  });

  test("is not believed where no key to check it by is configured", async () => {
    const deaf = connectTo(fake.port, { publicUrl });
    const jwt = await signReport(target);
    const headers = { "messagebird-signature-jwt": jwt };
    expect(await deaf.readReport?.({ method: "GET", target, headers, body: new Uint8Array() })).toEqual({
      kind: "forged",
      cause: "no secret",
    });
    const lost = connectTo(fake.port, { signingKey });
    expect(await lost.readReport?.({ method: "GET", target, headers, body: new Uint8Array() })).toEqual({
      kind: "forged",
      cause: "no public URL",
    });
  });

  test("that says nothing of an SMS of ours is irrelevant", async () => {
    const at = "/webhooks/messagebird?id=m1&status=delivered";
    expect(await read(await signReport(at), { at })).toEqual({ kind: "irrelevant" });
  });
});
