/**
 * OTP_PRICES_FILE: what is found in a good one, and every fault of a bad one by its JSON pointer. The schema in docs/ takes and
 * refuses what the reader does.
 */
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  dearest,
  missingPrices,
  moneyText,
  parseMoney,
  readPrices,
  type Prices,
} from "../../../src/otp/message/prices.ts";

const schema = JSON.parse(readFileSync(new URL("../../../docs/prices.schema.json", import.meta.url), "utf8")) as object;
const suits = new Ajv2020({ strict: false }).compile(schema);

const good = {
  $schema: "./prices.schema.json",
  currency: "EUR",
  prices: [
    { country: "NL", channel: "sms", provider: "bird", per_segment: "0.0825" },
    { country: "NL", channel: "sms", per_segment: "0.09" },
    { country: "NL", channel: "*", provider: "twilio", per_segment: "0.1" },
    { country: "DE", per_segment: "0.07" },
    { country: "*", channel: "voice", provider: "*", per_segment: "0.000001" },
    { country: "*", channel: "sms", provider: "*", per_segment: "1" },
  ],
};
const faultsOf = (file: unknown) => readPrices(typeof file === "string" ? file : JSON.stringify(file)).faults;
function read(file: unknown = good): Prices {
  const { prices, faults } = readPrices(JSON.stringify(file));
  if (prices === undefined) throw new Error(faults.join("\n"));
  return prices;
}

describe("money", () => {
  test.each([
    ["0", 0],
    ["1", 1_000_000],
    ["0.0825", 82_500],
    ["0.000001", 1],
    ["12.5", 12_500_000],
    ["999999999.999999", 999_999_999_999_999],
  ])("%s is %i millionths", (text, amount) => {
    expect(parseMoney(text)).toBe(amount);
  });
  test.each([
    "",
    ".5",
    "1.",
    "1,5",
    "-1",
    "+1",
    "1e3",
    "0.0000001",
    "1000000000",
    " 1",
    "1 ",
    "٣",
    "0x1",
    "1_000",
    "NaN",
  ])("%j is none", (text) => expect(parseMoney(text)).toBeUndefined());
  test("is shown with two places at least, and read back as it was", () => {
    expect([0, 1, 82_500, 1_500_000, 250_000_000].map(moneyText)).toEqual([
      "0.00",
      "0.000001",
      "0.0825",
      "1.50",
      "250.00",
    ]);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 999_999_999_999_999 }), (amount) => {
        expect(parseMoney(moneyText(amount))).toBe(amount);
      }),
    );
  });
});

describe("a good file", () => {
  test("suits the schema, and has no faults", () => {
    expect([suits(good), faultsOf(good), read().currency]).toEqual([true, [], "EUR"]);
    expect(faultsOf(`\uFEFF${JSON.stringify(good)}`)).toEqual([]);
  });

  test.each([
    ["NL", "sms", "bird", 82_500],
    ["NL", "sms", "acme", 90_000],
    ["NL", "sms", "twilio", 100_000],
    ["NL", "voice", "twilio", 100_000],
    ["NL", "voice", "bird", 1],
    ["NL", "whatsapp", "bird", undefined],
    ["DE", "voice", "bird", 70_000],
    ["FR", "sms", "bird", 1_000_000],
    ["FR", "whatsapp", "bird", undefined],
  ] as const)("has for %s by %s through %s what names it closest: %s", (country, channel, provider, price) => {
    expect(read().priceOf({ country, channel, provider })).toBe(price);
  });

  test("has for a message the dearest of those that may be asked, for each segment", () => {
    const of = { country: "NL", channel: "sms" } as const;
    expect(dearest(read(), of, ["bird", "twilio"], 3)).toBe(300_000);
    expect(dearest(read(), of, ["bird"], 1)).toBe(82_500);
    expect(dearest(read(), { ...of, channel: "whatsapp" }, ["twilio", "bird"], 1)).toBeUndefined();
    expect(dearest(read(), { ...of, channel: "whatsapp" }, ["console"], 1)).toBe(0);
  });

  test("tells what it lacks by name", () => {
    const missing = missingPrices(read(), ["NL", "DE", "*"], { sms: ["bird"], whatsapp: ["bird", "console"] });
    expect(missing).toEqual(["NL by whatsapp through bird", "* by whatsapp through bird"]);
  });
});

// ---- bad files ------------------------------------------------------------------------------------------------------

const odd = [{ canary: 1 }, [[]], 7, null, true, "can\u0000ary"];
const places = [
  "/currency",
  "/prices",
  ...good.prices.flatMap((entry, i) => [`/prices/${i}`, ...Object.keys(entry).map((key) => `/prices/${i}/${key}`)]),
];
type Loose = Record<string, unknown>;

function changed(pointer: string, value: unknown): Loose {
  const file = structuredClone(good) as unknown as Loose;
  const steps = pointer.slice(1).split("/");
  const last = steps.pop() ?? "";
  const parent = steps.reduce<Loose>((at, step) => at[step] as Loose, file);
  if (value === undefined) delete parent[last];
  else parent[last] = value;
  return file;
}

const mutations = places.flatMap((pointer) => odd.map((value) => ({ pointer, value, what: JSON.stringify(value) })));
test("there are over a hundred mutations", () => expect(mutations.length).toBeGreaterThan(100));

test.each(mutations)("$pointer that is $what is told by a pointer and a sentence", ({ pointer, value }) => {
  const file = changed(pointer, value);
  const faults = faultsOf(file);
  expect(faults.length).toBeGreaterThan(0);
  for (const fault of faults) expect(fault).toMatch(/^\/\S+ (must|is) [^\n]{4,}[^.\s]$/);
  expect(faults.join("\n")).not.toContain("can\u0000ary");
  expect(faults.some((fault) => fault.startsWith(`${pointer} `) || fault.startsWith(`${pointer}/`))).toBe(true);
  expect(suits(file)).toBe(false);
});

test.each(["/currency", "/prices", "/prices/0/country", "/prices/3/per_segment"])(
  "without %s it is told so",
  (pointer) => {
    expect([faultsOf(changed(pointer, undefined)), suits(changed(pointer, undefined))]).toEqual([
      [`${pointer} is missing`],
      false,
    ]);
  },
);

test.each<[string, unknown, string]>([
  ["/currency", "Euro", "must be a currency"],
  ["/prices", [], "must have at least one entry"],
  ["/prices/0/country", "nl", "must be a country"],
  ["/prices/0/channel", "fax", "must be one of sms, voice, whatsapp, *"],
  ["/prices/0/provider", "Bird!", "must be the name of a provider"],
  ["/prices/0/per_segment", "-0.1", "must be a decimal"],
  ["/prices/0/per_segment", "0.0000001", "must be a decimal"],
  ["/prices/0/per_segment", 0.1, "must be a text"],
  ["/prices/0/price", "0.1", "is not known"],
  ["/colour", "red", "is not known"],
])("%s that is %j is told: %s", (pointer, value, sentence) => {
  const file = changed(pointer, value);
  expect(faultsOf(file)).toEqual([expect.stringContaining(`${pointer} ${sentence}`)]);
  expect(suits(file)).toBe(false);
});

test("all faults are told at once", () => {
  const file = { currency: "?", prices: [{ country: "NL" }, { per_segment: "x", colour: 1 }], more: 1 };
  expect(
    faultsOf(file)
      .map((fault) => fault.split(" ")[0] ?? "")
      .toSorted((a, b) => (a < b ? -1 : 1)),
  ).toEqual([
    "/currency",
    "/more",
    "/prices/0/per_segment",
    "/prices/1/colour",
    "/prices/1/country",
    "/prices/1/per_segment",
  ]);
});

test("two entries for the same are told, whichever way they are written", () => {
  const file = structuredClone(good);
  file.prices.push({ country: "DE", channel: "*", provider: "*", per_segment: "0.08" });
  expect(faultsOf(file)).toEqual(["/prices/6 is for the same as /prices/3"]);
});

test.each(["", "{", "NaN", "[]", "7", "null", `"EUR"`])("a file that is %j is told of as a whole", (json) => {
  expect(faultsOf(json)).toEqual([expect.stringMatching(/^(is not JSON|must be an object)/)]);
});

test("a file of more than a mebibyte is not looked at", () => {
  expect(faultsOf(" ".repeat(1_048_577))).toEqual(["is larger than 1024 KiB"]);
});
