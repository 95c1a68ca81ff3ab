/**
 * What is a web origin and what is an app's hash, and that nothing else gets into a last line.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseAndroidAppHash, parseWebOrigin, withLastLine } from "../../../src/otp/template/last-line.ts";

const label = (length: number) => "a".repeat(length);
const host253 = [label(63), label(63), label(63), label(61)].join(".");

describe("a web origin is", () => {
  test.each([
    ["https://shop.example", "https://shop.example", "shop.example"],
    ["HTTPS://Shop.EXAMPLE", "https://shop.example", "shop.example"],
    ["https://shop.example:443", "https://shop.example", "shop.example"],
    ["https://shop.example:8443", "https://shop.example:8443", "shop.example"],
    ["https://a.b-c.shop.example", "https://a.b-c.shop.example", "a.b-c.shop.example"],
    ["https://bücher.example", "https://xn--bcher-kva.example", "xn--bcher-kva.example"],
    ["http://localhost:3000", "http://localhost:3000", "localhost"],
    ["http://localhost", "http://localhost", "localhost"],
    ["https://localhost:3000", "https://localhost:3000", "localhost"],
    [`https://${host253}`, `https://${host253}`, host253],
  ])("%s", (text, origin, host) => {
    expect(host253).toHaveLength(253);
    const parsed = parseWebOrigin(text);
    expect(parsed).toEqual({ ok: true, value: origin });
    const webOrigin = parsed.ok ? parsed.value : undefined;
    expect(withLastLine("text", "123456", { webOrigin })).toBe(`text\n\n@${host} #123456`);
  });
});

/** Soft hyphens, which reading leaves out. */
const long = "\u00ad".repeat(250);

/** Everything that must not pass for a web origin. */
const malformedOrigins = [
  // Longer than any origin: how long it takes to read depends on what is in it.
  `https://shop${long}.example`,
  "shop.example",
  "http://shop.example",
  "http://localhost.example",
  "http://127.0.0.1:3000",
  "https://127.0.0.1",
  "https://2130706433",
  "https://[::1]",
  "https://shop.example/",
  "https://shop.example/login",
  "https://shop.example?a",
  "https://shop.example#a",
  "https://user@shop.example",
  "https://shop.example:99999",
  "https://shop.example.",
  "https://shop..example",
  "https://-shop.example",
  "https://shop-.example",
  "https://shop_1.example",
  "https://*.example",
  "https://shop.example #999999",
  "https://shop.example\n@evil.example #999999",
  "https://shop.example\t",
  " https://shop.example",
  "https:\\\\shop.example",
  "https:shop.example",
  "https://%73hop.example",
  "https://",
  "https://.",
  "wss://shop.example",
  "android:apk-key-hash:x",
  "null",
  `https://a.${host253}`,
  `https://${label(64)}.example`,
];

test.each(malformedOrigins)("no web origin is %j", (text) => {
  expect(parseWebOrigin(text)).toMatchObject({
    ok: false,
    refusal: { reason: "INVALID_REQUEST", field: "web_origin" },
  });
});

test("whatever is taken for a web origin makes a last line of one host, one space and the code", () => {
  const tail = fc.constantFrom(
    "",
    "",
    ":8443",
    "/",
    " ",
    "\n",
    " #1",
    "\n@evil.example #1",
    ".",
    "%20",
    "\u00a0",
    "。evil",
  );
  const hostile = fc.oneof(
    fc.tuple(fc.domain(), tail).map(([domain, after]) => `https://${domain}${after}`),
    fc.string({ unit: "grapheme" }).map((text) => `https://${text}`),
  );
  let taken = 0;
  fc.assert(
    fc.property(hostile, (text) => {
      const parsed = parseWebOrigin(text);
      if (parsed.ok) taken += 1;
      const line = withLastLine("x", "123456", { webOrigin: parsed.ok ? parsed.value : undefined });
      return /^x(\n\n@[a-z0-9.-]{1,253} #123456)?$/.test(line);
    }),
    { seed: 1, numRuns: 1_000 },
  );
  expect(taken).toBeGreaterThan(100);
});

test("an app's hash is 11 characters of base64", () => {
  for (const text of ["FA+9qCX9VSu", "abcdefghij/", "12345678901"]) {
    expect(parseAndroidAppHash(text)).toEqual({ ok: true, value: text });
  }
  for (const text of [
    "FA+9qCX9VS",
    "FA+9qCX9VSu=",
    "FA+9qCX9VSuu",
    "FA-9qCX9VSu",
    "FA+9qCX9VS\n",
    "FA+9 CX9VSu",
    "é+9qCX9VSu0",
  ]) {
    expect(parseAndroidAppHash(text)).toMatchObject({
      ok: false,
      refusal: { reason: "INVALID_REQUEST", field: "android_app_hash" },
    });
  }
});

test("without either there is no last line", () => {
  expect(parseWebOrigin("")).toEqual({ ok: true, value: undefined });
  expect(parseAndroidAppHash("")).toEqual({ ok: true, value: undefined });
  expect(withLastLine("text", "123456", {})).toBe("text");
});
