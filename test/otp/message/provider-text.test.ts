import { describe, expect, test } from "vitest";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import { readReference, referenceOf } from "../../../src/otp/message/provider-text.ts";
import { keys, masterKeyA, masterKeyB } from "../../support/data/examples.ts";

const id = Buffer.alloc(16, 0x5a).toString("base64url");
const other = Buffer.alloc(16, 0x5b).toString("base64url");
const ringB = createKeyRing([masterKeyB]);

describe("a reference", () => {
  test("leads back to its verification and its copy", () => {
    for (const copy of [0, 1, 5, 99]) {
      expect(readReference(keys, referenceOf(keys.current, id, copy))).toEqual([{ id, copy }]);
    }
  });

  test("is the same for every try of one message, and another for every other message", () => {
    const one = referenceOf(keys.current, id, 0);
    expect(referenceOf(keys.current, id, 0)).toBe(one);
    expect(new Set([one, referenceOf(keys.current, id, 1), referenceOf(keys.current, other, 0)]).size).toBe(3);
  });

  test("fits what providers take, and tells them nothing of the request_id", () => {
    const reference = referenceOf(keys.current, id, 0);
    expect(reference).toMatch(/^[A-Za-z0-9_-]{22}\.0$/);
    expect(reference).not.toContain(id);
    expect(referenceOf(ringB.current, id, 0)).not.toBe(reference);
  });

  // Fixed for ever, since a report may come after an update. Found by openssl: AES-256-ECB under the HKDF key.
  test("does not change between versions", () => {
    expect(referenceOf(keys.current, id, 0)).toBe("XsFpEvpdHbD8kVokyPa8BA.0");
  });

  test("is read after the master key was rotated", () => {
    const rotated = createKeyRing([masterKeyB, masterKeyA]);
    expect(readReference(rotated, referenceOf(keys.current, id, 2))).toContainEqual({ id, copy: 2 });
    expect(readReference(ringB, referenceOf(keys.current, id, 2))).not.toContainEqual({ id, copy: 2 });
  });

  const whole = referenceOf(keys.current, id, 0);
  test.each([
    ["nothing", ""],
    ["the copy alone", ".0"],
    ["no copy", whole.slice(0, -2)],
    ["a character too few", whole.slice(1)],
    ["a character too many", `A${whole}`],
    ["a copy of three digits", `${whole}00`],
    ["a negative copy", whole.replace(".0", ".-1")],
    ["a line behind it", `${whole}\n`],
    ["characters of another alphabet", `${"+".repeat(22)}.0`],
    ["4000 characters", "A".repeat(4_000)],
  ])("that has %s stands for nothing", (_, reference) => {
    expect(readReference(keys, reference)).toEqual([]);
  });

  test("that nobody gave out stands for an id that does not exist", () => {
    const [guess] = readReference(keys, `${"A".repeat(22)}.0`);
    expect(guess?.id).toHaveLength(22);
    expect([id, other]).not.toContain(guess?.id);
  });
});
