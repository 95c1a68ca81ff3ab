/** The token of a page names its last row to nobody, and is good with the same search alone. */
import { expect, test } from "vitest";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import { openPage, pageNonceBytes, sealPage } from "../../../src/otp/keys/page-token.ts";

const ringOf = (...bytes: number[]) => createKeyRing(bytes.map((byte) => new Uint8Array(32).fill(byte)));
const key = { createMs: 1_700_000_000_123, id: "AAECAwQFBgcICQoLDA0ODw" };
const nonce = new Uint8Array(pageNonceBytes).fill(7);
const token = sealPage(ringOf(1).current, "search", key, nonce);

test("it is read by who made it, also after its key was rotated", () => {
  expect(openPage(ringOf(1), "search", token)).toEqual(key);
  expect(openPage(ringOf(2, 1), "search", token)).toEqual(key);
  expect(openPage(ringOf(2), "search", token)).toBeUndefined();
});

test("it does not tell the id", () => {
  expect(token).not.toContain(key.id.slice(0, 8));
  expect(Buffer.from(token, "base64url").includes(Buffer.from(key.id, "base64url"))).toBe(false);
});

test("it is of no other search, and no bit of it can be changed", () => {
  expect(openPage(ringOf(1), "searching", token)).toBeUndefined();
  const bytes = Buffer.from(token, "base64url");
  for (let i = 0; i < bytes.length; i++) {
    const other = Buffer.from(bytes);
    other[i] = (other[i] ?? 0) ^ 1;
    expect(openPage(ringOf(1), "search", other.toString("base64url"))).toBeUndefined();
  }
  for (const text of ["", "A", `${token}A`, token.slice(1), "%".repeat(token.length)]) {
    expect(openPage(ringOf(1), "search", text)).toBeUndefined();
  }
});
