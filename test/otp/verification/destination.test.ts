/**
 * Which numbers get messages: what the number plans, the country list and the operator's lists say, and who speaks last.
 */
import { describe, expect, test } from "vitest";
import { decideSend } from "../../../src/otp/decisions/sending.ts";
import { decideResend } from "../../../src/otp/decisions/resending.ts";
import type { Channel } from "../../../src/otp/channel.ts";
import {
  admitNumber,
  isPrefix,
  prefixesOf,
  refusalOf,
  type Verdict,
} from "../../../src/otp/verification/destination.ts";
import { parsePhoneNumber, type PhoneNumber } from "../../../src/otp/phone-number.ts";
import { newPrefix } from "../../../src/otp/limits/pumping-guard.ts";
import { ok } from "../../../src/otp/reason.ts";
import {
  claim,
  exhaustedPhone,
  freshPhone,
  policy,
  record,
  secondMs,
  sendFacts,
  verificationOf,
  sameChannel,
} from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

function read(input: string): PhoneNumber {
  const parsed = parsePhoneNumber(input);
  if (!parsed.ok) throw new Error(`${input} is not in international form`);
  return parsed.value;
}

/** What a number is told under a country list ("" for none) and an entry. */
function answerFor(input: string, countries: string, verdict?: Verdict, channel: Channel = "sms"): string {
  const allowedCountries = countries === "" ? undefined : new Set(countries.split(","));
  return (
    refusalOf("default", { phone: read(input), channel }, verdict, { ...policy, allowedCountries })?.reason ?? "sent"
  );
}

const [mobile, landline, satellite, unknown] = ["+31612345678", "+31201234567", "+881612345678", "+3161234567"];

describe("who speaks last", () => {
  test.each<[input: string, countries: string, none: string, blocked: string, allowed: string]>([
    [mobile, "", "sent", "DESTINATION_BLOCKED", "sent"],
    [mobile, "NL", "sent", "DESTINATION_BLOCKED", "sent"],
    [mobile, "BE", "COUNTRY_NOT_ALLOWED", "DESTINATION_BLOCKED", "sent"],
    [landline, "", "PHONE_NOT_MOBILE", "PHONE_NOT_MOBILE", "sent"],
    [landline, "BE", "PHONE_NOT_MOBILE", "PHONE_NOT_MOBILE", "sent"],
    [satellite, "", "PHONE_NOT_MOBILE", "PHONE_NOT_MOBILE", "sent"],
    [unknown, "", "PHONE_INVALID", "PHONE_INVALID", "sent"],
    [unknown, "BE", "PHONE_INVALID", "PHONE_INVALID", "sent"],
    ["+99912345678", "NL", "PHONE_INVALID", "PHONE_INVALID", "sent"],
  ])("%s with the countries '%s': %s, blocked %s, allowed %s", (input, countries, none, blocked, allowed) => {
    const all = [
      answerFor(input, countries),
      answerFor(input, countries, "block"),
      answerFor(input, countries, "allow"),
    ];
    expect(all).toEqual([none, blocked, allowed]);
  });

  test("a satellite's number is told what it is", () => {
    expect(refusalOf("default", { phone: read(satellite), channel: "sms" }, undefined, policy)?.message).toMatch(
      /satellite/,
    );
  });

  test("the sandbox asks no list, and a live key's lists take no fictional number", () => {
    const fictional = read("+14155550100");
    const narrow = { ...policy, allowedCountries: new Set(["NL"]) };
    expect(refusalOf("default+test", { phone: fictional, channel: "sms" }, "block", narrow)).toBeUndefined();
    expect(admitNumber("default", ok(fictional))).toMatchObject({ ok: false, refusal: { reason: "PHONE_INVALID" } });
    // Also where the area code is none: an allow entry would be asked for what is read as doubtful.
    for (const nowhere of ["+15555550100", "+10005550100"]) {
      for (const tenant of ["default", "default+test"]) {
        expect(admitNumber(tenant, ok(read(nowhere)))).toMatchObject({ ok: false });
      }
    }
  });
});

describe("the country list goes by the number's country and not by its calling code", () => {
  test.each([
    ["+447400123456", "GB", "GG,JE,IM"],
    ["+447911123456", "GG", "GB"],
    ["+447797123456", "JE", "GB,GG"],
    ["+447624123456", "IM", "GB"],
    ["+79161234567", "RU", "KZ"],
    ["+77011234567", "KZ", "RU"],
    ["+14165550123", "CA", "US"],
    ["+14155552671", "US", "CA,JM"],
    ["+18763312345", "JM", "US,CA"],
    ["+12423591234", "BS", "US"],
    ["+17872345678", "PR", "US"],
    ["+358401234567", "FI", "AX"],
    // Morocco's and Western Sahara's mobile numbers are the same to the library, as Finland's and Åland's are.
    ["+212650123456", "MA", "EH"],
    ["+262692123456", "RE", "YT"],
    ["+59995181234", "CW", "BQ"],
    ["+5993181234", "BQ", "CW"],
  ])("%s is served by %s and not by %s", (input, own, others) => {
    expect([answerFor(input, own), answerFor(input, others)]).toEqual(["sent", "COUNTRY_NOT_ALLOWED"]);
  });

  test.each([
    ["+358181234567", "AX"],
    ["+212528812345", "MA"],
    ["+15555550123", "US"],
    ["+76123456789", "RU"],
    ["+881612345678", "001"],
    ["+99912345678", "001"],
  ])("%s, once allowed, is of %s", (input, region) => {
    expect(read(input).region).toBe(region);
  });
});

describe("an entry", () => {
  test.each(["+3", "+31612", "+31612345678", "+123456789012345"])("may be %s", (text) => {
    expect(isPrefix(text)).toBe(true);
  });

  test.each(["", "+", "31612", "+0", "+031", "+1234567890123456", "+31 612", "+31-6", " +31", "+31\n", "+３１", "*"])(
    "may not be %j",
    (text) => {
      expect(isPrefix(text)).toBe(false);
    },
  );

  test("speaks for the numbers that begin with it: at most 15 are asked for, the longest first", () => {
    expect(prefixesOf("+31612")).toEqual(["+31612", "+3161", "+316", "+31", "+3"]);
    const longest = prefixesOf("+123456789012345");
    expect([longest.length, longest[0], longest.at(-1)]).toEqual([15, "+123456789012345", "+1"]);
  });
});

describe("in the order of refusals", () => {
  const full = exhaustedPhone(testEpochMs).view;
  const blockedView = { now: testEpochMs, phone: full, verdict: "block" } as const;
  const reasonOf = ({ result }: { result: object }) =>
    "refusal" in result ? (result.refusal as { reason: string }).reason : "no refusal";

  test("a send that is blocked is told so before its limits are asked, and writes nothing", () => {
    const decided = decideSend(blockedView, ok(sendFacts), { claim, policy });
    expect([reasonOf(decided), decided.writes]).toEqual(["DESTINATION_BLOCKED", {}]);
  });

  test("the pumping guard leaves an allowed number alone, and its sends are not counted", () => {
    const enforcing = { ...policy, fraudGuard: "enforce" as const };
    const prefix = { ...newPrefix, phase: "tripped" as const, untilMs: testEpochMs + 3_600_000 };
    const send = (verdict: Verdict | undefined) =>
      decideSend({ now: testEpochMs, phone: freshPhone, prefix, verdict }, ok(sendFacts), {
        claim: undefined,
        policy: enforcing,
      });
    expect(reasonOf(send(undefined))).toBe("DESTINATION_BLOCKED");
    const { writes, result } = send("allow");
    expect([result.kind, writes.prefix, writes.verification?.tally]).toEqual(["opened", undefined, "none"]);
    const verification = verificationOf({ tally: "block" });
    const now = testEpochMs + 30 * secondMs;
    const resend = (verdict: Verdict | undefined) =>
      decideResend({ now, verification, phone: freshPhone, prefix, verdict }, sameChannel, {
        claim: undefined,
        policy: enforcing,
      });
    expect([reasonOf(resend(undefined)), reasonOf(resend("allow"))]).toEqual(["DESTINATION_BLOCKED", "no refusal"]);
  });

  test("what its address's limit would have refused is not counted as refused by the pumping guard", () => {
    const terms = { claim: undefined, policy: { ...policy, fraudGuard: "enforce" as const } };
    const prefix = { ...newPrefix, phase: "tripped" as const, untilMs: testEpochMs + 3_600_000 };
    const limited = { reason: "IP_RATE_LIMITED", retryAfterMs: 1_000 } as const;
    const due = {
      now: testEpochMs + 30 * secondMs,
      verification: verificationOf({ tally: "block" }),
      phone: freshPhone,
    };
    const both = (more: Partial<typeof terms & { limited: typeof limited }>) => [
      decideSend({ now: testEpochMs, phone: freshPhone, prefix }, ok(sendFacts), { ...terms, ...more }),
      decideResend({ ...due, prefix }, sameChannel, { ...terms, ...more }),
    ];
    expect(both({}).map((each) => [reasonOf(each), each.writes.prefix?.record.refused])).toEqual([
      ["DESTINATION_BLOCKED", 1],
      ["DESTINATION_BLOCKED", 1],
    ]);
    expect(both({ limited }).map((each) => [reasonOf(each), each.writes])).toEqual([
      ["DESTINATION_BLOCKED", {}],
      ["DESTINATION_BLOCKED", {}],
    ]);
  });

  test("a repeat of a send is answered as it was, also when its number was blocked since", () => {
    const recorded = verificationOf();
    const decided = decideSend({ ...blockedView, record, recorded }, ok(sendFacts), { claim, policy });
    expect(decided.result.kind).toBe("replay");
  });

  test("a resend is refused once its number is blocked, when it would be its time; an allowed number's is not", () => {
    const verification = verificationOf();
    const at = (now: number, verdict: Verdict | undefined, phone = freshPhone) =>
      reasonOf(decideResend({ now, verification, phone, verdict }, sameChannel, { claim: undefined, policy }));
    const due = testEpochMs + 30 * secondMs;
    expect(at(due - 1, "block")).toBe("RESEND_TOO_SOON");
    expect(at(due, "block", full)).toBe("DESTINATION_BLOCKED");
    expect([at(due, "allow"), at(due, undefined)]).toEqual(["no refusal", "no refusal"]);
  });
});
