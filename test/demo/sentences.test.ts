/**
 * What the demo page says: a sentence for every refusal there is, and times in words.
 */
import { describe, expect, test } from "vitest";
import { OtpErrorSchema, Reason } from "../../gen/otp/v1/otp_service_pb.ts";
import { Code, ConnectError } from "@connectrpc/connect";
import { nameOf, troubleOf } from "../../src/demo/client.ts";
import { counted, inWords, onTheClock } from "../../src/demo/countdown.ts";
import { claimsOf } from "../../src/demo/receipt.ts";
import { explain, type Trouble } from "../../src/demo/sentences.ts";
import { bindableOrigin } from "../../src/demo/web-otp.ts";

/** A refusal as it comes off the wire. */
function refusal(said: { reason: number; attemptsRemaining?: number; retryAfter?: { seconds: bigint } }): Trouble {
  return troubleOf(new ConnectError("", Code.FailedPrecondition, {}, [{ desc: OtpErrorSchema, value: said }]));
}

const sentence = (trouble: Trouble) => explain(trouble).sentence;
const general = "That did not work, and the server did not say why. Try again in a moment.";

describe("every refusal is a sentence", () => {
  const reasons = Object.entries(Reason).filter(([name]) => name !== "UNSPECIFIED");

  test.each(reasons)("%s", (name, reason) => {
    const said = sentence(refusal({ reason }));
    expect(said).toMatch(/^[A-Z][^_]+\.$/);
    expect(said).not.toContain(name);
    expect(said).not.toBe(general);
    expect(said).not.toMatch(/undefined|NaN/);
  });

  test.each([
    ["a reason of the future", refusal({ reason: 4_711 })],
    ["no reason", refusal({ reason: Reason.UNSPECIFIED })],
    ["an error that is not ours", troubleOf(new ConnectError("secret words", Code.Internal))],
    ["a name that only looks like a reason", { reason: "constructor" } as unknown as Trouble],
  ])("%s gets the general one", (_, trouble) => expect(sentence(trouble)).toBe(general));

  test("a wrong code says how many attempts are left", () => {
    const wrong = (attemptsRemaining: number) => explain(refusal({ reason: Reason.CODE_MISMATCH, attemptsRemaining }));
    expect(wrong(4)).toEqual({ about: "code", sentence: "That is not the code. 4 attempts left." });
    expect(wrong(1)).toEqual({ about: "code", sentence: "That is not the code. 1 attempt left." });
    expect(wrong(0)).toMatchObject({ about: "over" });
  });

  test("a limit says how long to wait", () => {
    const limited = (seconds: number) =>
      sentence(refusal({ reason: Reason.IP_RATE_LIMITED, retryAfter: { seconds: BigInt(seconds) } }));
    expect(limited(1)).toBe("There were too many tries from your network. Try again in 1 second.");
    expect(limited(540)).toBe("There were too many tries from your network. Try again in about 9 minutes.");
  });

  test("no connection and no answer have their own", () => {
    expect(sentence(troubleOf(ConnectError.from(new TypeError("Failed to fetch"))))).toMatch(/cannot be reached/);
    expect(sentence(troubleOf(new ConnectError("", Code.DeadlineExceeded)))).toMatch(/took too long/);
  });

  test("a reason is read by its number", () => {
    expect([nameOf(Reason.OTP_LOCKED), nameOf(Reason.UNSPECIFIED), nameOf(4_711 as Reason)]).toEqual([
      "OTP_LOCKED",
      undefined,
      undefined,
    ]);
  });
});

describe("times in words", () => {
  test.each([
    [0, "1 second"],
    [0.2, "1 second"],
    [28.1, "29 seconds"],
    [90, "90 seconds"],
    [91, "about 2 minutes"],
    [5_400, "about 90 minutes"],
    [5_401, "about 2 hours"],
    [86_400, "about 24 hours"],
  ])("%d seconds are %s", (seconds, words) => expect(inWords(seconds)).toBe(words));

  test("and on the clock", () => {
    expect([600, 65, 9, 0].map(onTheClock)).toEqual(["10:00", "1:05", "0:09", "0:00"]);
    expect([0, 1, 2].map((count) => counted(count, "resend"))).toEqual(["0 resends", "1 resend", "2 resends"]);
  });
});

describe("a receipt", () => {
  const receipt = (claims: unknown) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.sig`;

  test("is shown by its claims, with the number masked", () => {
    const claims = { iss: "otpd", phone: "+31612345678", bind: { payee: "Zoë ≥ 1" }, test: true };
    expect(claimsOf(receipt(claims))).toEqual([
      ["iss", "otpd"],
      ["phone", "+31•••••••78"],
      ["bind", '{"payee":"Zoë ≥ 1"}'],
      ["test", "true"],
    ]);
  });

  test.each(["", "a", "a.b.c", "e30.bnVsbA.x"])("that is none, such as %j, shows nothing", (text) =>
    expect(claimsOf(text)).toEqual([]),
  );
});

test.each([
  ["http://localhost:8080", "http://localhost:8080"],
  ["https://shop.example", "https://shop.example"],
  ["http://127.0.0.1:8080", ""],
  ["https://127.0.0.1", ""],
  ["http://[::1]:8080", ""],
  ["https://[::1]", ""],
  ["http://shop.example", ""],
])("at %s the SMS is bound to %j", (at, bound) =>
  expect(bindableOrigin(new URL(at) as unknown as Location)).toBe(bound),
);
