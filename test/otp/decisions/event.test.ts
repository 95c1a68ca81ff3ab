/**
 * Endpoints by themselves: their URLs, their secrets, and what a try means. What events there are is in the store's
 * contract.
 */
import { describe, expect, test } from "vitest";
import {
  afterTry,
  disabled,
  enabled,
  failingMaxMs,
  parseEndpointUrl,
  resealed,
  retryWaitsMs,
  sealSecret,
  signingSecrets,
  type Endpoint,
  type TryOutcome,
} from "../../../src/otp/operators/endpoint.ts";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";

const ringOf = (...bytes: number[]) => createKeyRing(bytes.map((byte) => Buffer.alloc(32, byte)));
const keys = ringOf(1);
const secret = Buffer.alloc(32, 5);
const boxOf = (byte: number) => sealSecret(keys.current, "we_1", Buffer.alloc(32, byte), Buffer.alloc(12, 100 + byte));
const endpoint: Endpoint = {
  id: "we_1",
  tenant: "default",
  url: "https://shop.example/",
  types: [],
  showPhones: false,
  kid: keys.current.kid,
  secrets: [{ box: boxOf(5), createMs: 0, endMs: null }],
  createMs: 0,
  disableMs: null,
  why: null,
  failingSinceMs: null,
};
const hourMs = 3_600_000;

describe("a try", () => {
  test("that fails is followed by nine more, at the times of the specification", () => {
    let [now, current, chance] = [0, endpoint, 0];
    const at = [0];
    for (let tries = 0; ; tries++) {
      const after = afterTry(tries, current, "failed", now, chance);
      current = after.endpoint;
      if (after.retry === null) break;
      expect(after.retry.tries).toBe(tries + 1);
      at.push(after.retry.dueMs - now);
      now = after.retry.dueMs;
      chance = 0;
    }
    const minuteMs = 60_000;
    const hours = [2, 5, 10, 14, 20, 24].map((each) => each * hourMs);
    expect(at).toEqual([0, 5_000, 5 * minuteMs, 30 * minuteMs, ...hours]);
    // Nothing was taken in all that time.
    expect(current).toMatchObject({ disableMs: now, why: "failing", failingSinceMs: 0 });
    expect(now).toBeGreaterThan(failingMaxMs);
  });

  test("is put off by a tenth more at most", () => {
    const dueMs = afterTry(8, endpoint, "failed", 1_000, 255 / 256).retry?.dueMs ?? 0;
    expect(dueMs - 1_000).toBeGreaterThan(24 * hourMs * 1.09);
    expect(dueMs - 1_000).toBeLessThan(24 * hourMs * 1.1);
  });

  const last = retryWaitsMs.length;
  const failing = { ...endpoint, failingSinceMs: 10 };
  test.each<[string, number, Endpoint, TryOutcome, number, Partial<Endpoint>]>([
    ["taken changes nothing", 0, endpoint, "taken", 20, endpoint],
    ["taken ends the failing", 3, failing, "taken", 20, { failingSinceMs: null, disableMs: null }],
    ["failed for the first time begins it", 0, endpoint, "failed", 20, { failingSinceMs: 20, disableMs: null }],
    ["failed again goes on", 0, failing, "failed", 20, { failingSinceMs: 10, disableMs: null }],
    ["the last, a moment before three days", last, failing, "failed", 9 + failingMaxMs, { disableMs: null }],
    ["the last, after three days", last, failing, "failed", 10 + failingMaxMs, { why: "failing" }],
    ["not the last, after three days", last - 1, failing, "failed", 10 + failingMaxMs, { disableMs: null }],
    ["gone at once", 0, endpoint, "gone", 20, { disableMs: 20, why: "gone" }],
  ])("that is %s", (_, tries, before, outcome, now, after) => {
    expect(afterTry(tries, before, outcome, now, 0).endpoint).toMatchObject(after);
  });

  test("does not give another reason to what is disabled; what is enabled again has a clean slate", () => {
    const off = disabled({ ...endpoint, failingSinceMs: 1 }, "operator", 5);
    expect(disabled(off, "gone", 9)).toBe(off);
    expect(enabled(off)).toEqual(endpoint);
  });
});

describe("a secret", () => {
  test("signs until its end, the newest first", () => {
    const older = { box: boxOf(6), createMs: 0, endMs: 100 };
    const both = { ...endpoint, secrets: [...endpoint.secrets, older] };
    expect(signingSecrets(keys, both, 99)).toEqual([secret, Buffer.alloc(32, 6)]);
    expect(signingSecrets(keys, both, 100)).toEqual([secret]);
  });

  test("is not in its box, opens for its endpoint alone, and under its key alone", () => {
    expect(Buffer.from(boxOf(5)).includes(secret.subarray(0, 8))).toBe(false);
    expect(() => signingSecrets(keys, { ...endpoint, id: "we_2" }, 0)).toThrow("unable to authenticate");
    expect(() => signingSecrets(ringOf(2), endpoint, 0)).toThrow("no master key");
  });

  test("moves to the current master key", () => {
    const rotated = ringOf(2, 1);
    const moved = resealed(rotated, endpoint, () => Buffer.alloc(12, 9));
    expect(moved.kid).toBe(rotated.current.kid);
    expect(signingSecrets(ringOf(2), moved, 0)).toEqual([secret]);
    expect(resealed(rotated, moved, () => Buffer.alloc(12))).toBe(moved);
  });
});

test.each([
  ["https://shop.example/otp?x=1", true, true],
  ["https://127.0.0.1:8443/", true, true],
  ["http://localhost:8080/", false, true],
  ["http://127.0.0.1/", false, true],
  ["http://[::1]/", false, true],
  ["http://shop.example/", false, false],
  ["http://localhost.shop.example/", false, false],
  ["https://user@shop.example/", false, false],
  ["https://:word@shop.example/", false, false],
  ["https://shop.example/#part", false, false],
  ["ftp://shop.example/", false, false],
  ["shop.example", false, false],
  ["", false, false],
  [`https://shop.example/${"x".repeat(2_048)}`, false, false],
])("%s is a URL for production: %s, for development: %s", (text, isForAll, isForDevelopment) => {
  const reads = [false, true].map((isDevelopment) => parseEndpointUrl(text, isDevelopment)?.href);
  expect(reads.map((href) => href !== undefined)).toEqual([isForAll, isForDevelopment]);
});
