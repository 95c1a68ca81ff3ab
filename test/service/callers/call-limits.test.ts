/**
 * The limits on callers: what a place costs, when it comes back, and that a flood of strangers takes neither memory nor
 * time without end.
 */
import { expect, test } from "vitest";
import type { KeyKind } from "../../../src/otp/keys/api-key.ts";
import { createExpiryMap } from "../../../src/service/callers/expiry-map.ts";
import { createCallLimit, createCallLimits } from "../../../src/service/callers/call-limits.ts";
import { createManualSystem } from "../../support/service/system.ts";

const limit = { burst: 3, intervalMs: 1_000 };

const address = { sends: { burst: 10, intervalMs: 60_000 }, calls: { burst: 60, intervalMs: 1_000 } };

function startCallLimit(entriesMax?: number) {
  const system = createManualSystem();
  return { system, callLimit: createCallLimit(limit, "IP_RATE_LIMITED", () => system.now(), entriesMax) };
}

test("a limit lets its burst through, then one an interval, for each name apart", () => {
  const { system, callLimit } = startCallLimit();
  const taken = (name: string) => callLimit.take(name).refusal;
  for (let i = 0; i < 3; i++) expect(taken("a")).toBeUndefined();
  expect(taken("a")).toEqual({ reason: "IP_RATE_LIMITED", retryAfterMs: 1_000 });
  expect(taken("b")).toBeUndefined();
  system.advance(999);
  expect(taken("a")).toEqual({ reason: "IP_RATE_LIMITED", retryAfterMs: 1 });
  system.advance(1);
  expect([taken("a"), taken("a")?.reason]).toEqual([undefined, "IP_RATE_LIMITED"]);
});

test("a place is given back once, and never makes a bucket fuller than full", () => {
  const { callLimit } = startCallLimit();
  const places = Array.from({ length: 3 }, () => callLimit.take("a"));
  expect(callLimit.take("a").refusal).toBeDefined();
  places[0]?.giveBack();
  places[0]?.giveBack();
  expect(callLimit.take("a").refusal).toBeUndefined();
  expect(callLimit.take("a").refusal).toBeDefined();
  callLimit.take("a").giveBack();
  expect(callLimit.take("a").refusal).toBeDefined();
  for (const place of places) place.giveBack();
  expect([1, 2, 3, 4].map(() => callLimit.take("a").refusal === undefined)).toEqual([true, true, false, false]);
});

test("a tenant's callers are its own, and so are a key's calls", () => {
  const system = createManualSystem();
  const callLimits = createCallLimits(() => system.now(), { key: { burst: 1, intervalMs: 1 }, address });
  const sends = (tenant: string) =>
    Array.from(
      { length: 12 },
      () => callLimits.send({ tenant, kind: "pub" }, "192.0.2.1").refusal === undefined,
    ).filter(Boolean).length;
  expect([sends("one"), sends("two"), sends("one")]).toEqual([10, 10, 0]);
  expect([callLimits.key("a"), callLimits.key("b")]).toEqual([undefined, undefined]);
  expect(callLimits.key("a")).toEqual({ reason: "KEY_RATE_LIMITED", retryAfterMs: 1 });
  expect(createCallLimits(() => system.now(), { key: undefined, address }).key("a")).toBeUndefined();
});

test("sends that are wider than calls are answered too, and a page's test key has limits of its own", () => {
  const system = createManualSystem();
  const served = (kind: KeyKind, limits: typeof address) => {
    const callLimits = createCallLimits(() => system.now(), { key: undefined, address: limits });
    const key = { tenant: "acme", kind };
    const counted = (take: () => unknown) =>
      Array.from({ length: 300 }, take).filter((refusal) => refusal === undefined).length;
    return [
      counted(() => callLimits.send(key, "a").refusal),
      counted(() => callLimits.call(key, "a")),
      counted(() => callLimits.attempt(key, "a")),
    ];
  };
  const wide = { sends: { burst: 200, intervalMs: 1_000 }, calls: { burst: 20, intervalMs: 60_000 } };
  for (const kind of ["live", "test", "pub"] as const) {
    expect([kind, served(kind, address)]).toEqual([kind, [10, 60, 60]]);
    expect([kind, served(kind, wide)]).toEqual([kind, [200, 20, 200]]);
  }
  for (const limits of [address, wide]) expect(served("pubtest", limits)).toEqual([100, 100, 100]);
});

test("of 100,000 names no more are kept than there is room for, and what has lapsed goes first", () => {
  const kept = createExpiryMap(1_000);
  for (let i = 0; i < 500; i++) kept.set(`held ${i}`, 10_000_000, 1);
  for (let i = 0; i < 100_000; i++) {
    kept.set(`stranger ${i}`, 100 + i, 1 + i);
    if (kept.size > 1_000) throw new Error(`${kept.size} are kept`);
  }
  expect(Array.from({ length: 500 }, (_, i) => kept.get(`held ${i}`)).every((moment) => moment > 0)).toBe(true);
});

test("full of moments to come it makes room for a newcomer all the same", () => {
  const kept = createExpiryMap(100);
  for (let i = 0; i < 10_000; i++) {
    kept.set(`name ${i}`, 1_000_000 + i, 1);
    expect(kept.get(`name ${i}`)).toBe(1_000_000 + i);
    expect(kept.size).toBeLessThanOrEqual(100);
  }
});

test("a moment that has passed is not kept", () => {
  const kept = createExpiryMap(10);
  kept.set("a", 5, 1);
  kept.set("a", 5, 5);
  expect([kept.get("a"), kept.size]).toEqual([0, 0]);
});
