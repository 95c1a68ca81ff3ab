/** Whose page asks, by the origin and the host that a request names. */
import { expect, test } from "vitest";
import { isOwnOrigin } from "../../src/server/http/own-origin.ts";

test.each([
  ["of the host itself", "https://console.example", "console.example", true],
  ["whose default port is spelt out", "https://console.example", "console.example:443", true],
  ["of another host", "https://evil.example", "console.example", false],
  ["of another port", "https://console.example:8443", "console.example", false],
  ["of no host", "null", "console.example", false],
])("a page %s", (_, origin, host, isOwn) => {
  expect(isOwnOrigin(origin, { host })).toBe(isOwn);
  expect(isOwnOrigin(origin, { ":authority": host })).toBe(isOwn);
});

test("what is longer than any host's is not even read, be it the origin or the host", () => {
  const long = `${"a.".repeat(200)}example`;
  expect(isOwnOrigin(`https://${long}`, { host: long })).toBe(false);
  expect(isOwnOrigin("https://a.example", { host: `a.example:${"0".repeat(300)}443` })).toBe(false);
});
