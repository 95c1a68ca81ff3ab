import { describe, expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import {
  mainCountries,
  maskPhone,
  openPhone,
  objectionTo,
  parsePhoneNumber,
  phoneIndex,
  phoneIndexBytes,
  sealPhone,
  type E164,
} from "../../src/otp/phone-number.ts";
import { getCountries, getExampleNumber, parsePhoneNumberFromString } from "libphonenumber-js/max";
import examples from "libphonenumber-js/examples.mobile.json" with { type: "json" };
import metadata from "libphonenumber-js/metadata.max.json" with { type: "json" };
import { masterKeyA, masterKeyB } from "../support/data/examples.ts";
import { readSpellings, refusedSpellings } from "../support/data/spellings.ts";
import { seededRandom } from "../support/service/system.ts";

/** The number and its region, or the reason why there is none or it gets no SMS. */
function read(input: string): string {
  const parsed = parsePhoneNumber(input);
  const refusal = parsed.ok ? objectionTo(parsed.value, "sms") : parsed.refusal;
  if (refusal !== undefined) return `${refusal.reason} ${refusal.field}`;
  return parsed.ok ? `${parsed.value.e164} ${parsed.value.region}` : "";
}

const valid = "+31612345678 NL";
const refused = "PHONE_INVALID phone";

/** Numbers of every type but those that get an SMS, and of networks that no country has. */
const noSms: [number: string, what: string][] = [
  ["+31800123456", "toll-free"],
  ["+80012345678", "toll-free of no country"],
  ["+18332345678", "toll-free"],
  ["+979123456789", "premium rate of no country"],
  ["+41900123456", "premium rate"],
  ["+34803123456", "premium rate"],
  ["+80812345678", "shared cost of no country"],
  ["+491801234567", "shared cost"],
  ["+611300123456", "shared cost"],
  ["+878101234567890", "VOIP of no country"],
  ["+882161234567", "VOIP of an international network"],
  ["+883510012345", "VOIP of an international network"],
  ["+31850123456", "VOIP"],
  ["+43720123456", "VOIP"],
  ["+15002345678", "a personal number"],
  ["+34704123456", "a personal number"],
  ["+4916412345678", "a pager"],
  ["+31661234567", "a pager"],
  ["+443031231234", "a company's number"],
  ["+31881234567", "a company's number"],
  ["+41860123456789", "a voicemail box"],
  ["+97215112340000", "a voicemail box"],
  ["+358181234567", "a landline, of Åland"],
  ["+212528812345", "a landline, of Western Sahara"],
  ["+870773111632", "a satellite's, though the library says mobile"],
  ["+881612345678", "a satellite's, though the library says mobile"],
  ["+881712345678", "a satellite's, though the library says mobile"],
];

describe("every spelling of one number is that number, or refused", () => {
  test.each([
    ...readSpellings.map((spelling) => [spelling, valid] as const),
    ...refusedSpellings.map((spelling) => [spelling, refused] as const),
  ])("%j is %s", (input, expected) => {
    expect(read(input)).toBe(expected);
  });
});

describe("what is no number is refused", () => {
  test.each([
    ["", "nothing"],
    ["+", "a sign alone"],
    ["+31", "a calling code alone"],
    ["+3161234567", "a digit short"],
    ["+316123456789", "a digit long"],
    ["+99912345678", "a calling code nobody has"],
    ["+5215512345678", "Mexico's old spelling of a mobile number"],
    ["+1 (0) 415 555 2671", "a trunk zero where there is none"],
    ["+1".padEnd(17, "1"), "longer than any number"],
    ["112", "an emergency number"],
    ["+".repeat(32), "signs only"],
    ["+" + "(".repeat(31), "brackets only"],
    ["+31612345678".repeat(10_000), "120,000 characters"],
  ])("%j: %s", (input) => {
    expect(read(input)).toBe(refused);
  });
});

describe("only what gets an SMS is taken", () => {
  test("a number is valid exactly when the library knows its type", () => {
    for (const country of getCountries()) {
      const number = getExampleNumber(country, examples)?.number ?? "";
      for (let cut = 0; cut < 6; cut++) {
        const other = number.slice(0, number.length - cut) + "7".repeat(cut);
        const parsed = parsePhoneNumberFromString(other, { extract: false });
        expect([other, parsed?.isValid() ?? false]).toEqual([other, parsed?.getType() !== undefined]);
      }
    }
  });

  test("there is a number of every type that the library knows", () => {
    const types = new Set(noSms.map(([number]) => parsePhoneNumberFromString(number)?.getType()));
    const all = ["FIXED_LINE", "TOLL_FREE", "PREMIUM_RATE", "SHARED_COST", "VOIP", "PERSONAL_NUMBER", "PAGER", "UAN"];
    expect(types).toEqual(new Set([...all, "VOICEMAIL", "MOBILE"]));
  });

  test.each(noSms)("%s is %s: PHONE_NOT_MOBILE", (input) => {
    expect(read(input)).toBe("PHONE_NOT_MOBILE phone");
  });

  test.each(getCountries())("the example of a mobile number of %s is taken", (country) => {
    expect(read(getExampleNumber(country, examples)?.number ?? "")).toMatch(/^\+\d+ [A-Z]{2}$/);
  });
});

describe("a number that the plans do not know", () => {
  /** The number, its region and the objection. */
  const doubted = (input: string) => {
    const parsed = parsePhoneNumber(input);
    if (!parsed.ok) return parsed.refusal.reason;
    const { e164, region } = parsed.value;
    return `${e164} ${region} ${objectionTo(parsed.value, "sms")?.reason}`;
  };

  test.each([
    ["+3161234567", "+3161234567 NL PHONE_INVALID", "a digit short"],
    ["+31 6-1234.567", "+3161234567 NL PHONE_INVALID", "with punctuation"],
    ["+316123456789", "+316123456789 NL PHONE_INVALID", "a digit long"],
    ["+15555550123", "+15555550123 US PHONE_INVALID", "of a code that many share"],
    ["+76123456789", "+76123456789 RU PHONE_INVALID", "of a code that two share"],
    ["+12425550000", "+12425550000 BS PHONE_INVALID", "of the Bahamas as far as it goes"],
    ["+888123456789", "+888123456789 001 PHONE_INVALID", "of no country"],
    ["+99912345678", "+99912345678 001 PHONE_INVALID", "of a code that nobody has"],
    ["+881612345678", "+881612345678 001 PHONE_NOT_MOBILE", "of a satellite"],
    ["+31201234567", "+31201234567 NL PHONE_NOT_MOBILE", "a landline"],
    ["+3161234", "+3161234 NL PHONE_INVALID", "7 digits"],
    ["+316123", "PHONE_INVALID", "6 digits"],
    ["+316123456789012", "+316123456789012 NL PHONE_INVALID", "15 digits"],
    ["+3161234567890123", "PHONE_INVALID", "16 digits"],
    ["+01234567890", "PHONE_INVALID", "a calling code with 0"],
    ["+3100612345678", "PHONE_INVALID", "zeros that the plan takes away one by one"],
    ["+31061234567", "PHONE_INVALID", "a trunk zero before what is no number"],
  ])("%s is %s: %s", (input, expected) => {
    expect(doubted(input)).toBe(expected);
  });

  test("is read again as it was read, whatever was typed", () => {
    const random = seededRandom(5);
    for (let i = 0; i < 5_000; i++) {
      const digits = Array.from({ length: 5 + Math.floor(random() * 12) }, () => Math.floor(random() * 10)).join("");
      const first = parsePhoneNumber(`+${digits}`);
      const { e164 = "" } = first.ok ? first.value : {};
      const again = parsePhoneNumber(e164);
      expect(again.ok ? again.value.e164 : "").toBe(e164);
    }
  });

  test("is of the calling code's main country, as the library orders them", () => {
    const shared = Object.entries(metadata.country_calling_codes).filter(([, countries]) => countries.length > 1);
    expect(new Map(shared.map(([code, [main]]) => [code, main]))).toEqual(mainCountries);
  });
});

describe("numbers that get no SMS", () => {
  test.each([
    ["+18005551234", "toll-free"],
    ["+80012345678", "toll-free of no country"],
    ["+31800123456", "toll-free"],
    ["+448001234567", "toll-free"],
    ["+19005551234", "premium rate"],
    ["+31900123456", "premium rate"],
    ["+31201234567", "a landline"],
    ["+442079460958", "a landline"],
    ["+4930123456", "a landline"],
    ["+390612345678", "a landline"],
    ["+81312345678", "a landline"],
    ["+541123456789", "a landline, though the same digits after a 9 are a mobile"],
    ["+883510012345678", "VOIP of no country"],
    ["+445612345678", "VOIP"],
    ["+815012345678", "VOIP"],
    ["+447012345678", "a personal number"],
    ["+447600123456", "a pager"],
  ])("%s is %s: PHONE_NOT_MOBILE", (input) => {
    expect(read(input)).toBe("PHONE_NOT_MOBILE phone");
  });
});

describe("the region is the number's own, not that of its calling code", () => {
  test.each([
    ["+447400123456", "GB"],
    ["+447911123456", "GG"],
    ["+447781123456", "GG"],
    ["+447797123456", "JE"],
    ["+447624123456", "IM"],
    ["+14155552671", "US"],
    ["+12505061234", "CA"],
    ["+17872345678", "PR"],
    ["+18764591234", "JM"],
    ["+12684641234", "AG"],
    ["+77011234567", "KZ"],
    ["+79161234567", "RU"],
    ["+590690123456", "GP"],
    ["+262692123456", "RE"],
    ["+358401234567", "FI"],
    ["+38344123456", "XK"],
    ["+525512345678", "MX"],
    ["+5491123456789", "AR"],
    ["+2250123456789", "CI"],
    ["+393123456789", "IT"],
  ])("%s is of %s", (input, region) => {
    expect(read(input)).toBe(`${input} ${region}`);
  });
});

const [ringA, ringB] = [createKeyRing([masterKeyA]), createKeyRing([masterKeyB])];
const [keyA, keyB] = [ringA.current, ringB.current];
const phone = "+31612345678" as E164;

describe("the index of a number", () => {
  test("is the first half of an HMAC over tenant and number", () => {
    // Computed apart from this code base. A change here resets the limits of every phone.
    expect(Buffer.from(phoneIndex(keyA, "default", phone)).toString("hex")).toBe("861c3dff5faf9bd93541922b1a47cc3c");
    expect(phoneIndexBytes).toBe(16);
  });

  test("differs by key, by tenant and by number", () => {
    const all = [keyA, keyB].flatMap((key) =>
      ["default", "acme", ""].flatMap((tenant) =>
        [phone, "+31612345679"].map((number) => Buffer.from(phoneIndex(key, tenant, number)).toString("hex")),
      ),
    );
    expect(new Set(all).size).toBe(12);
  });
});

describe("the box of a number", () => {
  const id = "q83vEjRWeJCrze8SNFZ4kA";
  const box = sealPhone(keyA, id, phone);

  test("opens to the number, also when its key is an older one", () => {
    // As it comes from a row: the box at hand is known without being opened.
    const stored = () => Uint8Array.from(box);
    expect(openPhone(ringA, keyA.kid, id, stored())).toBe(phone);
    expect(openPhone(createKeyRing([masterKeyB, masterKeyA]), keyA.kid, id, stored())).toBe(phone);
  });

  test("opens twice to the same number", () => {
    const stored = Uint8Array.from(box);
    expect([1, 2].map(() => openPhone(ringA, keyA.kid, id, stored))).toEqual([phone, phone]);
  });

  test("opens from a view into a larger buffer, as a database may hand it out", () => {
    const larger = Buffer.concat([Buffer.alloc(5), box, Buffer.alloc(5)]);
    expect(openPhone(ringA, keyA.kid, id, larger.subarray(5, 5 + box.length))).toBe(phone);
  });

  test("does not show the number", () => {
    expect(Buffer.from(box).includes(phone)).toBe(false);
    expect(Buffer.from(box).includes("612345678")).toBe(false);
  });

  test("is another one for another row or under another key", () => {
    const boxes = [box, sealPhone(keyA, "AAAAAAAAAAAAAAAAAAAAAA", phone), sealPhone(keyB, id, phone)];
    expect(new Set(boxes.map((each) => Buffer.from(each).toString("hex"))).size).toBe(3);
  });

  test("does not open with any one bit of it changed", () => {
    for (let bit = 0; bit < box.length * 8; bit++) {
      const altered = Uint8Array.from(box);
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => openPhone(ringA, keyA.kid, id, altered)).toThrow(/authentic/);
    }
  });

  test("does not open cut short, to any length", () => {
    for (let bytes = 0; bytes < box.length; bytes++) {
      expect(() => openPhone(ringA, keyA.kid, id, box.subarray(0, bytes))).toThrow(/authentic/);
      expect(() => openPhone(ringA, keyA.kid, id, box.subarray(box.length - bytes))).toThrow(/authentic/);
    }
  });

  test("does not open in another row, or under another key", () => {
    expect(() => openPhone(ringA, keyA.kid, "AAAAAAAAAAAAAAAAAAAAAA", box)).toThrow(/authentic/);
    expect(() => openPhone(ringB, keyB.kid, id, box)).toThrow(/authentic/);
  });

  test("does not open without its key, and says which it is", () => {
    expect(() => openPhone(ringB, keyA.kid, id, box)).toThrow(String(keyA.kid));
  });
});

describe("a masked number", () => {
  test.each([
    ["+31612345678", "+31•••••••78"],
    ["+14155552671", "+14•••••••71"],
    ["+2250123456789", "+22•••••••••89"],
    ["+1234", "+1234"],
  ])("%s is shown as %s", (e164, masked) => {
    expect(maskPhone(e164)).toBe(masked);
  });
});
