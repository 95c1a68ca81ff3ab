/**
 * The bot check against a far end in a process of its own: only a plain yes passes, whatever else comes is a no, and
 * nothing that was sent is told to anybody.
 */
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Refusal } from "../../../src/otp/reason.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import {
  createBotCheck,
  examineBotCheck,
  type BotCheck,
  type CheckNotMade,
} from "../../../src/service/callers/bot-check.ts";
import { deadOrigin } from "../../support/fakes/far-end.ts";
import { secretText, startSiteverify, type Siteverify } from "../../support/fakes/siteverify.ts";

let far: Siteverify;
const faults: unknown[] = [];
let check: (brought: string, address?: string) => Promise<Refusal | undefined>;
beforeAll(async () => {
  far = await startSiteverify();
  const [patient, hasty] = [makeCheck(far.url), makeCheck(far.url, secretText, 400)];
  // Only where no answer comes does it matter how long one is waited for.
  const isSilent = (brought: string) => brought === "silence" || brought === "drip";
  check = (brought, address) => (isSilent(brought) ? hasty : patient)(new Secret(brought), address);
});
afterAll(() => far.stop());

function makeCheck(url: string, secret = secretText, timeoutMs = 60_000): BotCheck {
  const settings = { verifyUrl: new URL(url), secret: new Secret(secret) };
  return createBotCheck(settings, (error) => void faults.push(error), { timeoutMs, callsMax: 64 });
}

/** What was told of as a fault since the last look, by its code. */
function takeFaults(): string[] {
  return faults.splice(0).map((error) => (error as CheckNotMade).code);
}

test("a yes passes, and asks as siteverify is asked, with the address where it is known", async () => {
  expect(await check("good &=%+ é", "2001:db8::1")).toBeUndefined();
  expect(await check("good as well")).toBeUndefined();
  const [first, second] = await far.asked();
  expect(first).toMatchObject({ method: "POST", form: { secret: secretText, response: "good &=%+ é" } });
  expect(first?.type).toMatch(/^application\/x-www-form-urlencoded(;|$)/);
  expect(first?.form["remoteip"]).toBe("2001:db8::1");
  expect(second?.form).not.toHaveProperty("remoteip");
  expect(takeFaults()).toEqual([]);
});

test("nothing brought is refused without asking", async () => {
  const before = (await far.asked()).length;
  expect(await check("")).toEqual({
    reason: "CHALLENGE_FAILED",
    field: "challenge_token",
    message: "challenge_token is required with this API key.",
  });
  expect(await far.asked()).toHaveLength(before);
});

test.each(["bad", "no by 400"])("a no is refused: %s", async (brought) => {
  expect(await check(brought)).toEqual({ reason: "CHALLENGE_FAILED", field: "challenge_token" });
  expect(takeFaults()).toEqual([]);
});

test("what was used once is refused from then on", async () => {
  expect(await check("good for once")).toBeUndefined();
  expect(await check("good for once")).toMatchObject({ reason: "CHALLENGE_FAILED" });
});

describe("what is no answer is a no, says that the check could not be made, and is told to the operator", () => {
  test.each([
    ["silence", "TIMEOUT"],
    ["drip", "TIMEOUT"],
    ["reset", "UND_ERR_SOCKET"],
    ["status 500", "HTTP_500"],
    ["status 503", "HTTP_503"],
    ["status 302", "HTTP_302"],
    ["no by 500", "HTTP_500"],
    ["status 201", "HTTP_201"],
    ["status 403", "HTTP_403"],
    ["huge", "BAD_ANSWER"],
    ["not JSON", "BAD_ANSWER"],
    ["a word", "BAD_ANSWER"],
    ["a list", "BAD_ANSWER"],
    ["null", "BAD_ANSWER"],
    ["nothing", "BAD_ANSWER"],
  ])("%s", async (brought, code) => {
    expect(await check(brought)).toEqual({
      reason: "CHALLENGE_FAILED",
      field: "challenge_token",
      message: "The bot check could not be made. Try again with a new challenge_token.",
      isOurFault: true,
    });
    expect(takeFaults()).toEqual([code]);
  });

  test("nobody there", async () => {
    const dead = makeCheck(`${await deadOrigin()}/siteverify`);
    expect(await dead(new Secret("good"), undefined)).toMatchObject({ reason: "CHALLENGE_FAILED" });
    expect(takeFaults()).toEqual(["ECONNREFUSED"]);
  });

  test("a secret of ours that the far end does not know", async () => {
    const refusal = await makeCheck(far.url, "wrong")(new Secret("good"), undefined);
    expect(refusal?.message).toMatch(/could not be made/);
    expect(takeFaults()).toEqual(["INVALID_INPUT_SECRET"]);
  });
});

test("a redirect is not followed: what was brought goes nowhere else", async () => {
  const before = (await far.asked()).length;
  await check("status 302");
  expect(await far.asked()).toHaveLength(before + 1);
  faults.splice(0);
});

test("at most 64 are under way; one more is told to come again, and has lost nothing", async () => {
  const patient = makeCheck(far.url);
  const before = (await far.asked()).length;
  const all = Array.from({ length: 64 }, (_, i) => patient(new Secret(`hold ${i}`), undefined));
  await far.asked(before + 64);
  expect(await patient(new Secret("good but late"), undefined)).toEqual({
    reason: "STORE_UNAVAILABLE",
    retryAfterMs: 1_000,
    message: "Too many bot checks are under way. Retry unchanged.",
  });
  expect(await far.asked()).toHaveLength(before + 64);
  await far.release();
  expect(await Promise.all(all)).toEqual(Array.from({ length: 64 }, () => undefined));
  expect(await patient(new Secret("good but late"), undefined)).toBeUndefined();
});

test("neither the secret nor what was brought is in a fault or a refusal", async () => {
  const results: unknown[] = [];
  for (const brought of ["not JSON", "reset", "status 500", "silence", "a word", "bad"])
    results.push(await check(brought));
  results.push(await makeCheck(`${await deadOrigin()}/`)(new Secret("canary"), undefined), ...faults.splice(0));
  expect(results).toHaveLength(13);
  const text = results
    .map((each) => `${inspect(each, { depth: 9, showHidden: true })} ${JSON.stringify(each)}`)
    .join("\n");
  for (const secret of [secretText, "not JSON", "status 500", "silence", "canary"]) expect(text).not.toContain(secret);
});

describe("examined", () => {
  const examine = (url: string, madeUp: string, secret = secretText) =>
    examineBotCheck({ verifyUrl: new URL(url), secret: new Secret(secret) }, new Secret(madeUp));

  test("it is well when it refuses what was made up", async () => {
    expect(await examine(far.url, "made-up")).toEqual({
      ok: true,
      sentence: "The bot check is reached, and refuses what was made up.",
    });
  });

  test.each([
    ["good, though made up", secretText, "lets everything pass: OTP_CHALLENGE_SECRET is one for tests."],
    ["made-up", "wrong", "does not accept OTP_CHALLENGE_SECRET."],
    ["status 500", secretText, "cannot be made: HTTP_500."],
  ])("it is not with %s", async (madeUp, secret, end) => {
    const { ok, sentence } = await examine(far.url, madeUp, secret);
    expect({ ok, ends: sentence.endsWith(end) }).toEqual({ ok: false, ends: true });
  });
});
