/**
 * The alphabet of GSM-7, written here a second time as ranges of code points, and the segments that come of it.
 */
import { describe, expect, test } from "vitest";
import { bytesForAndroid, measure, outsideGsm7 } from "../../../src/otp/template/encoding.ts";

/** 3GPP TS 23.038 §6.2.1, the default alphabet without the escape. */
const basic = points(`
  0a 0d 20-5a 5f 61-7a a1 a3-a5 a7 bf c4-c7 c9 d1 d6 d8 dc df e0 e4-e6 e8 e9 ec f1 f2 f6 f8 f9 fc
  393 394 398 39b 39e 3a0 3a3 3a6 3a8 3a9`);
/** §6.2.1.1, the extension. */
const extension = points("0c 5b-5e 7b-7e 20ac");

/** Code points from a list of ranges in hexadecimal. */
function points(ranges: string): number[] {
  return ranges
    .trim()
    .split(/\s+/)
    .flatMap((range) => {
      const [first = 0, last = first] = range.split("-").map((hex) => Number.parseInt(hex, 16));
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}

test("GSM-7 has the 127 characters of the default alphabet and the 10 of its extension, and no other", () => {
  const found = { basic: [] as number[], extension: [] as number[] };
  for (let point = 0; point < 0xd800; point++) {
    const { encoding, units } = measure(String.fromCodePoint(point));
    if (encoding === "GSM-7") found[units === 1 ? "basic" : "extension"].push(point);
  }
  expect(found).toEqual({ basic, extension });
  expect([basic.length, extension.length]).toEqual([127, 10]);
});

test("the accented letters that GSM-7 lacks, and a typewriter's better quotes, are told by name", () => {
  expect(outsideGsm7("código, não, où, ça, l’été, “x” – y…")).toEqual(["ó", "ã", "ç", "’", "“", "”", "–", "…"]);
  expect(outsideGsm7("où est l'été à Genève? Größe für Ñandú".replace("ú", "u"))).toEqual([]);
});

describe("segments", () => {
  const a = (count: number) => "a".repeat(count);
  test.each([
    ["no text", "", "GSM-7", 0, 1],
    ["160 septets", a(160), "GSM-7", 160, 1],
    ["161 septets", a(161), "GSM-7", 161, 2],
    ["306 septets", a(306), "GSM-7", 306, 2],
    ["307 septets", a(307), "GSM-7", 307, 3],
    ["80 euros", "€".repeat(80), "GSM-7", 160, 1],
    ["81 euros", "€".repeat(81), "GSM-7", 162, 2],
    ["306 septets with an escape on the seam, which moves over whole", `${a(152)}€${a(152)}`, "GSM-7", 306, 3],
    ["70 units", `ж${a(69)}`, "UCS-2", 70, 1],
    ["71 units", `ж${a(70)}`, "UCS-2", 71, 2],
    ["134 units", `ж${a(133)}`, "UCS-2", 134, 2],
    ["135 units", `ж${a(134)}`, "UCS-2", 135, 3],
    ["134 units with a pair on the seam, which moves over whole", `${a(66)}😀${a(66)}`, "UCS-2", 134, 3],
  ])("%s", (_, text, encoding, units, segments) => {
    expect(measure(text)).toEqual({ encoding, units, segments });
  });
});

test("Android's bytes are those of UTF-8, or of UCS-2 where that is more", () => {
  expect(bytesForAndroid("abc")).toBe(3);
  expect(bytesForAndroid("été")).toBe(5);
  expect(bytesForAndroid("aaaó")).toBe(8);
  expect(bytesForAndroid("कोड")).toBe(9);
});
