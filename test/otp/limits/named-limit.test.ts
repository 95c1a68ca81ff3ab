/**
 * Named limits: what a send that names them spends, and what is kept of whom they are for.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import {
  isLimitName,
  limitKeysOf,
  spendNamed,
  type LimitKey,
  type LimitTats,
  type NamedLimits,
} from "../../../src/otp/limits/named-limit.ts";
import { phoneIndex } from "../../../src/otp/phone-number.ts";
import { available, type Limit } from "../../../src/otp/limits/rate-limit.ts";
import { hourMs, keys, masterKeyA, masterKeyB, minuteMs, phone, secondMs } from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

const limits: NamedLimits = new Map([
  ["user", [{ burst: 5, intervalMs: hourMs }]],
  ["session", [{ burst: 2, intervalMs: minuteMs }]],
]);
const tenant = { id: "default", limits };

function found(given: Record<string, string>, of = tenant, ring = keys): readonly LimitKey[] {
  const result = limitKeysOf(ring, of, given);
  if (!result.ok) throw new Error(`refused: ${result.refusal.reason}`);
  return result.value;
}
const indexOf = (...args: Parameters<typeof found>) => Buffer.from(found(...args)[0]?.indexes[0] ?? []).toString("hex");

describe("a name", () => {
  test.each(["user", "u", "ip-net", "session_2", "a".repeat(32)])("may be %s", (name) => {
    expect(isLimitName(name)).toBe(true);
  });
  test.each(["", "User", "2fa", "_x", "a b", "a.b", "a=b", "ü", "a".repeat(33), "user\n"])("is not %j", (name) => {
    expect(isLimitName(name)).toBe(false);
  });
  test.each([
    ["a limit of another name", limits],
    ["nothing", undefined],
  ] as const)("that the tenant has not set is refused where it has %s, and the value is not repeated", (_, own) => {
    const result = limitKeysOf(keys, { id: "default", limits: own }, { other: "secret-value" });
    expect(result).toMatchObject({ ok: false, refusal: { reason: "INVALID_REQUEST", field: "limit_keys.other" } });
    expect(JSON.stringify(result)).not.toContain("secret-value");
  });
});

describe("what is kept of a value", () => {
  test("is 16 bytes that tell tenants, names, values and master keys apart", () => {
    const both = new Map([...limits, ["ip", limits.get("user") ?? []]]);
    const other = createKeyRing([masterKeyB]);
    const indexes = [
      indexOf({ user: "a" }),
      indexOf({ user: "b" }),
      indexOf({ user: "A" }),
      indexOf({ user: "a " }),
      indexOf({ session: "a" }),
      indexOf({ ip: "a" }, { id: "default", limits: both }),
      indexOf({ user: "a" }, { id: "acme", limits }),
      indexOf({ user: "a" }, tenant, other),
    ];
    expect(new Set(indexes).size).toBe(indexes.length);
    expect(new Set(indexes.map((hex) => hex.length))).toEqual(new Set([32]));
    expect(indexOf({ user: "a" })).toBe(indexes[0]);
  });

  test("is not what is kept of a phone, though the value is that number", () => {
    const own = phoneIndex(keys.current, "default", phone.e164);
    const index = indexOf({ user: phone.e164 });
    expect(index).not.toBe(Buffer.from(own).toString("hex").slice(0, 32));
    expect(index).not.toContain(Buffer.from(phone.e164).toString("hex"));
  });

  test("is there under every master key, the current one first, and in the order of the names", () => {
    const ring = createKeyRing([masterKeyB, masterKeyA]);
    const [session, user] = found({ user: "a", session: "b" }, tenant, ring);
    expect([session?.name, user?.name]).toEqual(["session", "user"]);
    expect(user?.indexes.map((index) => Buffer.from(index).toString("hex"))).toEqual([
      indexOf({ user: "a" }, tenant, createKeyRing([masterKeyB])),
      indexOf({ user: "a" }),
    ]);
  });
});

describe("a send that names limits", () => {
  test("is refused by the limit that asks for the longest wait, and the name is told", () => {
    const given = found({ user: "a", session: "b" });
    const full = given.map(({ limits: each }) => each.map(({ burst, intervalMs }) => testEpochMs + burst * intervalMs));
    expect(spendNamed(given, full, testEpochMs)).toEqual({
      allowed: false,
      refusal: {
        reason: "LIMIT_REACHED",
        field: "limit_keys.user",
        retryAfterMs: hourMs,
        metadata: { limit: "user" },
      },
    });
  });

  const limit = fc.record({ burst: fc.integer({ min: 1, max: 5 }), intervalMs: fc.integer({ min: 1, max: 50 }) });
  const named = fc.array(fc.array(limit, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 });

  test("spends one of each or nothing at all, never more than a limit has", () => {
    fc.assert(
      fc.property(named, fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 40 }), (lists, gaps) => {
        const given = lists.map((each, i): LimitKey => ({ name: `n${i}`, limits: each, indexes: [] }));
        let tats: readonly LimitTats[] = lists.map((each) => each.map(() => 0));
        let now = testEpochMs;
        const left = () => lists.map((each, i) => each.map((one: Limit, j) => available(one, tats[i]?.[j] ?? 0, now)));
        for (const gap of gaps) {
          now += gap;
          const before = left();
          const spent = spendNamed(given, tats, now);
          expect(spent.allowed).toBe(before.flat().every((free) => free >= 1));
          tats = spent.tats ?? tats;
          const taken = spent.allowed ? 1 : 0;
          expect(left()).toEqual(before.map((each) => each.map((free) => free - taken)));
        }
      }),
    );
  });

  test("that waits as long as it is told is let in by all of them", () => {
    fc.assert(
      fc.property(named, fc.integer({ min: 0, max: 100 * secondMs }), (lists, aheadMs) => {
        const given = lists.map((each, i): LimitKey => ({ name: `n${i}`, limits: each, indexes: [] }));
        const tats = lists.map((each) => each.map(() => testEpochMs + aheadMs));
        const first = spendNamed(given, tats, testEpochMs);
        const waitMs = first.allowed ? 0 : (first.refusal.retryAfterMs ?? Number.NaN);
        const stored = first.allowed ? tats : (first.tats ?? tats);
        expect(spendNamed(given, stored, testEpochMs + waitMs).allowed).toBe(true);
      }),
    );
  });
});
