/**
 * Origins: what a key may list, and from where which key may be used.
 */
import { expect, test } from "vitest";
import { judgeOrigin, parseOrigin } from "../../src/otp/origin.ts";
import type { KeyKind } from "../../src/otp/api-key.ts";

test.each([
  ["https://shop.example", "https://shop.example"],
  ["HTTPS://Shop.EXAMPLE", "https://shop.example"],
  ["https://shop.example:443", "https://shop.example"],
  ["https://shop.example:8443", "https://shop.example:8443"],
  ["https://bücher.example", "https://xn--bcher-kva.example"],
  ["https://192.0.2.7:8443", "https://192.0.2.7:8443"],
  ["http://localhost:5173", "http://localhost:5173"],
  ["http://127.0.0.1:5173", "http://127.0.0.1:5173"],
  ["http://[::1]:5173", "http://[::1]:5173"],
  ["http://[0:0:0:0:0:0:0:1]:5173", "http://[::1]:5173"],
])("%s is listed as %s", (text, origin) => {
  expect(parseOrigin(text)).toBe(origin);
});

test.each([
  "",
  "*",
  "null",
  "shop.example",
  "//shop.example",
  "https://",
  "https://shop.example/",
  "https://shop.example/path",
  "https://shop.example?q",
  "https://shop.example#f",
  "https://*.shop.example",
  "https://user@shop.example",
  "https://shop.example:99999",
  "https://shop.example https://other.example",
  "https://shop.example,https://other.example",
  "https://shop%2eexample",
  "http://shop.example",
  "http://shop.example:8080",
  "http://localhost",
  "http://localhost:80",
  "http://localhost.example:5173",
  "http://127.0.0.2:5173",
  "ws://localhost:5173",
  "file:///tmp/page.html",
  `https://${"a".repeat(300)}.example`,
])("%j is no origin that a key may list", (text) => {
  expect(parseOrigin(text)).toBeUndefined();
});

const listed = "https://shop.example";
const foreignPages = ["https://evil.example", `${listed}.evil.example`, `${listed}:8443`, "http://shop.example"];
const verdict = (kind: KeyKind, origin: string | undefined, { isApp = false, host = "otp.example" } = {}) => {
  const judged = judgeOrigin({ kind, origins: kind.startsWith("pub") ? [listed] : [], isApp }, origin, host);
  return judged.ok ? "ok" : judged.refusal.reason;
};

test.each<KeyKind>(["pub", "pubtest"])("a %s key is let in from the origins it lists alone", (kind) => {
  expect(verdict(kind, listed)).toBe("ok");
  for (const other of [undefined, "", "null", "https://SHOP.example", ...foreignPages, "https://otp.example"]) {
    expect([other, verdict(kind, other)]).toEqual([other, "ORIGIN_NOT_ALLOWED"]);
    const expected = other === undefined ? "ok" : "ORIGIN_NOT_ALLOWED";
    expect([other, verdict(kind, other, { isApp: true })]).toEqual([other, expected]);
  }
});

test.each<KeyKind>(["live", "test"])("a %s key is let in from no page but the server's own", (kind) => {
  expect(verdict(kind, undefined)).toBe("ok");
  const own: [origin: string, host: string][] = [
    ["https://otp.example", "otp.example"],
    ["https://otp.example", "otp.example:443"],
    ["http://127.0.0.1:8080", "127.0.0.1:8080"],
    ["http://[::1]:8080", "[::1]:8080"],
    ["https://otp.example", "OTP.example"],
  ];
  for (const [origin, host] of own)
    expect([origin, host, verdict(kind, origin, { host })]).toEqual([origin, host, "ok"]);
  const foreign: [origin: string, host: string][] = [
    [listed, "otp.example"],
    ["null", "otp.example"],
    ["", "otp.example"],
    ["null", "null"],
    ["file://", ""],
    ["https://otp.example:8443", "otp.example"],
    ["https://otp.example.evil.example", "otp.example"],
    ["https://otp.example", "otp.example:8443"],
    ["https://otp.example", ""],
  ];
  for (const [origin, host] of foreign) {
    expect([origin, host, verdict(kind, origin, { host })]).toEqual([origin, host, "SECRET_KEY_IN_BROWSER"]);
  }
});

test("a page's key from no page is told that it has no Origin, and not that it does not list one", () => {
  const judged = judgeOrigin(
    { kind: "pub", origins: ["https://shop.example"], isApp: false },
    undefined,
    "api.example",
  );
  expect(judged).toMatchObject({
    refusal: {
      reason: "ORIGIN_NOT_ALLOWED",
      message: "The API key is for web pages, and this call comes from none: it has no Origin.",
    },
  });
});
