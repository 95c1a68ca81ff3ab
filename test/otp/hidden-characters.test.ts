/**
 * Characters that are not seen: found by their number, and escaped as JSON does.
 */
import { expect, test } from "vitest";
import { escapeHidden, hiddenCharacter } from "../../src/otp/hidden-characters.ts";

const hidden = [
  0x00, 0x09, 0x0a, 0x1b, 0x1f, 0x7f, 0x85, 0x9b, 0x9f, 0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c,
  0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069,
];

test.each(hidden)("%i is found and escaped", (point) => {
  const text = `shop${String.fromCodePoint(point)}teb`;
  expect(hiddenCharacter(text)).toBe(`U+${point.toString(16).toUpperCase().padStart(4, "0")}`);
  expect(escapeHidden(text)).toBe(`shop\\u${point.toString(16).padStart(4, "0")}teb`);
  expect(JSON.parse(escapeHidden(`"${escapeHidden(text)}"`))).toBe(text);
});

test.each(["the shop's checkout", "kasse für Ämter", "متجر", "חנות", "店舗 1", "🛒", ""])("%j is as it was", (text) => {
  expect([hiddenCharacter(text), escapeHidden(text)]).toEqual([undefined, text]);
});
