/**
 * The alphabet of GSM-7, written here a second time as ranges of code points, and the segments that come of it.
 */
import { describe, expect, test } from "vitest";
import { bytesForAndroid, measure, outsideGsm7 } from "../../../src/otp/template/encoding.ts";

/** 3GPP TS 23.038 §6.2.1, the default alphabet without the escape: 127 characters. */
const basic = [
  ...[0x0a, 0x0d, ...range(0x20, 0x5a), 0x5f, ...range(0x61, 0x7a)],
  ...[0xa1, 0xa3, 0xa4, 0xa5, 0xa7, 0xbf, 0xc4, 0xc5, 0xc6, 0xc7, 0xc9, 0xd1, 0xd6, 0xd8, 0xdc, 0xdf],
  ...[0xe0, 0xe4, 0xe5, 0xe6, 0xe8, 0xe9, 0xec, 0xf1, 0xf2, 0xf6, 0xf8, 0xf9, 0xfc],
  ...[0x393, 0x394, 0x398, 0x39b, 0x39e, 0x3a0, 0x3a3, 0x3a6, 0x3a8, 0x3a9],
].filter((point) => point !== 0x60);
/** §6.2.1.1, the extension: 10 characters. */
const extension = [0x0c, 0x5b, 0x5c, 0x5d, 0x5e, 0x7b, 0x7c, 0x7d, 0x7e, 0x20ac];

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

test("GSM-7 has the 127 characters of the default alphabet and the 10 of its extension, and no other", () => {
  const found = { basic: [] as number[], extension: [] as number[] };
  for (const point of range(0, 0xd7ff)) {
    const { encoding, units } = measure(String.fromCodePoint(point));
    if (encoding === "GSM-7") found[units === 1 ? "basic" : "extension"].push(point);
  }
  expect(found).toEqual({ basic: [...basic].sort((a, b) => a - b), extension });
  expect(found.basic).toHaveLength(127);
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
