import { describe, expect, test } from "vitest";
import {
  idempotencyBusyMs,
  idempotencyClaim,
  idempotencyKeptMs,
  isBare,
  newRecord,
  precedentOf,
  recordOf,
  type IdempotencyRecord,
  type MutatingRpc,
} from "../../../src/otp/verification/idempotency.ts";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import {
  busyRecord,
  claim,
  dayMs,
  keys,
  masterKeyA,
  masterKeyB,
  otherClaim,
  record,
} from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const scope = { tenant: "default", keyId: "key", rpc: "SendOtp" as MutatingRpc, key: "the caller's" };

/** What a precedent comes to, in a word. */
function verdict(of: typeof claim, stored: IdempotencyRecord | undefined, at: number): string {
  const precedent = precedentOf(of, stored, at);
  return precedent.kind === "refused" ? precedent.refusal.reason : precedent.kind;
}

describe("a call with an Idempotency-Key", () => {
  test.each([
    ["that is new goes on", claim, undefined, now, "none"],
    ["that was answered is replayed", claim, record, now, "replay"],
    ["is replayed up to 24 hours later", claim, record, now + dayMs - 1, "replay"],
    ["goes on as a first one after 24 hours", claim, record, now + dayMs, "none"],
    ["with another request is refused", otherClaim, record, now, "IDEMPOTENCY_KEY_REUSED"],
    ["with another request goes on after 24 hours", otherClaim, record, now + dayMs, "none"],
    ["whose first call is running has to wait", claim, busyRecord, now, "IDEMPOTENCY_IN_PROGRESS"],
    [
      "still has to, a millisecond before the first counts as crashed",
      claim,
      busyRecord,
      now + 19_999,
      "IDEMPOTENCY_IN_PROGRESS",
    ],
    ["is answered from what the first left when that has crashed", claim, busyRecord, now + 20_000, "replay"],
    [
      "with another request is refused also while the first is running",
      otherClaim,
      busyRecord,
      now,
      "IDEMPOTENCY_KEY_REUSED",
    ],
    ["and also after the first has crashed", otherClaim, busyRecord, now + 20_000, "IDEMPOTENCY_KEY_REUSED"],
  ])("%s", (_, of, stored, at, expected) => {
    expect(verdict(of, stored, at)).toBe(expected);
  });

  test("is told to come back in a second while the first is running", () => {
    expect(precedentOf(claim, busyRecord, now)).toMatchObject({ refusal: { retryAfterMs: 1_000 } });
    expect(precedentOf(otherClaim, record, now)).not.toHaveProperty("refusal.retryAfterMs");
  });

  test("keeps its answer for 24 hours and its place for 20 s, longer than any call may take", () => {
    expect(record).toMatchObject({ expireMs: now + idempotencyKeptMs, busyUntilMs: now + idempotencyBusyMs });
    expect([idempotencyKeptMs, idempotencyBusyMs]).toEqual([dayMs, 20_000]);
  });

  test("leaves no record without a key", () => {
    expect(recordOf(undefined, "id", null, now)).toEqual({});
    expect(recordOf(claim, "id", null, now)).toEqual({ record: newRecord(claim, "id", null, now) });
  });
});

describe("an Idempotency-Key's place", () => {
  test("is another one for another tenant, API key, RPC or key", () => {
    const others = [
      scope,
      { ...scope, tenant: "acme" },
      { ...scope, keyId: "key2" },
      { ...scope, rpc: "ResendOtp" as MutatingRpc },
      { ...scope, key: "another" },
      { ...scope, keyId: "keySendOtp" },
      { ...scope, tenant: "defaultkey", keyId: "" },
    ];
    const slots = others.map((each) => hex(idempotencyClaim(keys, each, ["a"]).slot.digest));
    expect(new Set(slots).size).toBe(others.length);
    expect(slots[0]).toHaveLength(32);
  });

  test("is locked alike by instances with other master keys, and whatever the request", () => {
    const other = createKeyRing([masterKeyB]);
    expect(hex(idempotencyClaim(other, scope, ["b"]).slot.digest)).toBe(
      hex(idempotencyClaim(keys, scope, ["a"]).slot.digest),
    );
  });

  test("has a name under each master key, the current one first, and the bare digest last", () => {
    const ring = createKeyRing([masterKeyA, masterKeyB]);
    const { digest, names } = idempotencyClaim(ring, scope, ["a"]).slot;
    expect(hex(digest)).toBe("a232479c30eff8db83211276fe5d1bd3");
    expect(names.map(hex)).toEqual([
      "0acb668d2d51289c551c897f4eed46a81bb20104",
      "f27fbdaf4a80354d3a076fd53729f90cdd63dc33",
      "a232479c30eff8db83211276fe5d1bd3",
    ]);
    expect(names.map(isBare)).toEqual([false, false, true]);
    expect(newRecord(idempotencyClaim(ring, scope, ["a"]), "id", null, now).slot).toEqual(names[0]);
  });
});

describe("a request's fingerprint", () => {
  const macs = (fields: readonly string[], ring = keys) =>
    idempotencyClaim(ring, scope, fields).fingerprints.map(({ mac }) => hex(mac));

  test("differs with any field, and with where one field ends", () => {
    const requests = [["a", "b"], ["a", "c"], ["b", "a"], ["ab", ""], ["", "ab"], ["a", "b", ""], ["ab"]];
    expect(new Set(requests.flatMap((fields) => macs(fields))).size).toBe(requests.length);
  });

  test("is keyed: without the master key a code cannot be told from it", () => {
    expect(macs(["id", "123456"])).not.toEqual(macs(["id", "123456"], createKeyRing([masterKeyB])));
  });

  test("is recognised after a new master key was put before the one it was made with", () => {
    const rotated = idempotencyClaim(createKeyRing([masterKeyB, masterKeyA]), scope, ["a", "b"]);
    expect(verdict(rotated, record, now)).toBe("replay");
    expect(newRecord(rotated, "id", null, now).kid).toBe(createKeyRing([masterKeyB]).current.kid);
  });

  test("tells requests apart after a new master key, too", () => {
    const rotated = idempotencyClaim(createKeyRing([masterKeyB, masterKeyA]), scope, ["a", "c"]);
    expect(verdict(rotated, record, now)).toBe("IDEMPOTENCY_KEY_REUSED");
  });

  test("is refused when the key it was made with is gone, since nobody can tell", () => {
    const replaced = idempotencyClaim(createKeyRing([masterKeyB]), scope, ["a", "b"]);
    expect(verdict(replaced, record, now)).toBe("IDEMPOTENCY_KEY_REUSED");
  });
});
