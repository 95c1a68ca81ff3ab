/**
 * Origins: what a key may list, and from where which key may be used.
 */
import { expect, test } from "vitest";
import { judgeOrigin, parseOrigin } from "../../../src/otp/keys/origin.ts";
import type { KeyKind } from "../../../src/otp/keys/api-key.ts";

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
  ["http://localhost", "http://localhost"],
  ["http://localhost:80", "http://localhost"],
  ["http://127.0.0.1", "http://127.0.0.1"],
  ["http://shop.localhost:5173", "http://shop.localhost:5173"],
  ["http://tauri.localhost", "http://tauri.localhost"],
  ["https://localhost", "https://localhost"],
  ["capacitor://localhost", "capacitor://localhost"],
  ["Capacitor://LOCALHOST", "capacitor://localhost"],
  ["ionic://localhost", "ionic://localhost"],
  ["tauri://localhost", "tauri://localhost"],
  ["com.shop.app://localhost:8100", "com.shop.app://localhost:8100"],
  ["capacitor://shop.example", "capacitor://shop.example"],
  ["ionic://app", "ionic://app"],
  ["tauri://com.shop.app", "tauri://com.shop.app"],
  ["app://bundle", "app://bundle"],
  ["chrome-extension://abcdefghijklmnopabcdefghijklmnop", "chrome-extension://abcdefghijklmnopabcdefghijklmnop"],
  ["moz-extension://2b3a7f0e-7a0f-4d8e-9f0a-0c1d2e3f4a5b", "moz-extension://2b3a7f0e-7a0f-4d8e-9f0a-0c1d2e3f4a5b"],
])("%s is listed as %s, wherever the key is made", (text, origin) => {
  for (const isDevelopment of [true, false]) expect(parseOrigin(text, { isDevelopment })).toBe(origin);
});

test.each([
  ["http://192.168.1.20:5173", "http://192.168.1.20:5173"],
  ["http://10.0.2.2:8100", "http://10.0.2.2:8100"],
  ["http://172.16.0.1", "http://172.16.0.1"],
  ["http://172.31.255.255:80", "http://172.31.255.255"],
  ["http://169.254.1.1:5173", "http://169.254.1.1:5173"],
  ["http://127.0.0.2:5173", "http://127.0.0.2:5173"],
  ["http://0xa.1:5173", "http://10.0.0.1:5173"],
  ["http://[fd12:3456::1]:5173", "http://[fd12:3456::1]:5173"],
  ["http://[fe80::1]:5173", "http://[fe80::1]:5173"],
  ["http://laptop.local:5173", "http://laptop.local:5173"],
])("%s, of a private network, is listed as %s in development alone", (text, origin) => {
  expect(parseOrigin(text, { isDevelopment: true })).toBe(origin);
  expect(parseOrigin(text, { isDevelopment: false })).toBeUndefined();
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
  "http://localhost.example:5173",
  "http://.localhost:5173",
  "http://notlocalhost:5173",
  "http://*.localhost:5173",
  "http://localhost/",
  "http://user@localhost:5173",
  "http://172.15.0.1:5173",
  "http://172.32.0.1:5173",
  "http://192.169.0.1:5173",
  "http://11.0.0.1:5173",
  "http://8.8.8.8",
  "http://10.0.0.1.example",
  "http://[2001:db8::1]:5173",
  "http://[::ffff:8.8.8.8]:5173",
  "http://local:5173",
  "http://shop.example.local.example:5173",
  "ws://localhost:5173",
  "wss://localhost",
  "ftp://localhost",
  "file:///tmp/page.html",
  "file://localhost",
  "blob:https://shop.example",
  "data:text/html,x",
  "capacitor://",
  "capacitor://localhost/",
  "capacitor://*",
  "shell://shop.example",
  "capacitor://localhost:123456",
  "capacitor:localhost",
  "tauri://user@localhost",
  "1app://localhost",
  "app://",
  "app://a b",
  "app://-",
  "chrome-extension://*",
  "chrome-extension://abc/page.html",
  `https://${"a".repeat(300)}.example`,
])("%j is no origin that a key may list", (text) => {
  for (const isDevelopment of [true, false]) expect(parseOrigin(text, { isDevelopment })).toBeUndefined();
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
    ["capacitor://localhost", "localhost"],
    ["app://otp.example", "otp.example"],
  ];
  for (const [origin, host] of foreign) {
    expect([origin, host, verdict(kind, origin, { host })]).toEqual([origin, host, "SECRET_KEY_IN_BROWSER"]);
  }
});

test.each([
  [undefined, "The API key is for web pages, and this call comes from none: it has no Origin."],
  [
    "null",
    "The page's origin is null, as in a sandboxed frame or a page opened from a file, which no API key may list.",
  ],
])("a page's key from %j is told why, and not that it does not list one", (origin, message) => {
  const judged = judgeOrigin({ kind: "pub", origins: ["https://shop.example"], isApp: false }, origin, "api.example");
  expect(judged).toMatchObject({ refusal: { reason: "ORIGIN_NOT_ALLOWED", message } });
});
