import { createHmac, type KeyObject } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createKeyRing, digest, hmac, lengthPrefixed, type MasterKey } from "../../../src/otp/keys/key-ring.ts";
import { masterKeyA, masterKeyB } from "../../support/data/examples.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const exported = (key: KeyObject) => key.export().toString("hex");
const purposes = ["code", "phoneIndex", "phoneEncryption", "fingerprint", "reference"] as const;

describe("a master key is spread out by HKDF", () => {
  // Computed apart from this code base, with Python's hmac and hashlib. A change here makes every row unreadable.
  test.each([
    {
      master: masterKeyA,
      kid: 2_700_561_566,
      check: "e56bfcc4970807a987c47321a7e78f9e",
      code: "bf1bab4f01c283d8b7f9f96ca16bf26200060140b2aff9c56702d52ba2929462",
      phoneIndex: "e11e2995b86641c3278da499fba3d4c9a2491450706f0e2b8844ffb4181c45b4",
      phoneEncryption: "9a1f48b1eecfc497c41f86bb9359b90a148c8cae9c0603c0ec57128949410219",
      fingerprint: "49014c57bd14d82aa18b877bd7215fc68820f3e2942b53cc02adfa8d11080e1e",
    },
    {
      master: masterKeyB,
      kid: 2_851_502_998,
      check: "7920823e43bf639daebcc7cc2ae95d7d",
      code: "3e73d48456792e512eccfa5376b362bc176bad0a25b50f3703f82b81edc6f9aa",
      phoneIndex: "3d676917fe30efcb9e311600f27e3b419a94e8f25979ab024f66b17fcb9690a4",
      phoneEncryption: "5bce5a3540f322cb06fb43e1ffbb93e266748302ea66d8e91add3b7d2eef7e85",
      fingerprint: "5e9b77b155a1a07859fbc7aa0b6f441fe1958a275ffdcca8f5d8c137d65fd690",
    },
  ])("kid $kid", ({ master, kid, check, ...expected }) => {
    const { current } = createKeyRing([master]);
    expect(current.kid).toBe(kid);
    expect(hex(current.check)).toBe(check);
    for (const [purpose, key] of Object.entries(expected)) {
      expect(exported(current[purpose as keyof typeof expected])).toBe(key);
    }
  });

  test("no two purposes, of one key or of two, share a key", () => {
    const all = [masterKeyA, masterKeyB].flatMap((master) => {
      const { current } = createKeyRing([master]);
      return purposes.map((purpose) => exported(current[purpose]));
    });
    expect(new Set(all).size).toBe(2 * purposes.length);
  });

  test("what the database keeps to recognise a key is none of its keys", () => {
    const { current } = createKeyRing([masterKeyA]);
    const derived = purposes.map((purpose) => exported(current[purpose]));
    expect(derived.some((key) => key.includes(hex(current.check)))).toBe(false);
  });
});

describe("a ring of keys", () => {
  const ids = (all: readonly MasterKey[]) => all.map(({ kid }) => kid);

  test("has the first as its current one and finds each by its id", () => {
    const ring = createKeyRing([masterKeyB, masterKeyA]);
    expect(ids(ring.all)).toEqual([2_851_502_998, 2_700_561_566]);
    expect(ring.current).toBe(ring.all[0]);
    for (const key of ring.all) expect(ring.find(key.kid)).toBe(key);
    expect(ring.find(1)).toBeUndefined();
  });

  test("keeps a key's id and keys whatever its place in the list", () => {
    const first = createKeyRing([masterKeyA, masterKeyB]);
    const last = createKeyRing([masterKeyB, masterKeyA]);
    expect(ids(first.all)).toEqual(ids(last.all).toReversed());
    const kid = first.current.kid;
    expect(exported(first.current.code)).toBe(exported((last.find(kid) as MasterKey).code));
  });

  test.each([0, 16, 31, 33, 64])("refuses a key of %i bytes", (bytes) => {
    expect(() => createKeyRing([new Uint8Array(bytes)])).toThrow("32 bytes");
  });

  test("refuses to be empty", () => {
    expect(() => createKeyRing([])).toThrow("at least one");
  });
});

describe("fields are joined with their lengths", () => {
  test("in four bytes each", () => {
    expect(hex(lengthPrefixed("ab", new Uint8Array([1, 2, 3]), ""))).toBe("0000000261620000000301020300000000");
  });

  test("so that no two lists give the same bytes", () => {
    const lists = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["a", "b", "c"]];
    expect(new Set(lists.map((fields) => hex(lengthPrefixed(...fields)))).size).toBe(lists.length);
  });

  test("counted in bytes, not in characters", () => {
    expect(hex(lengthPrefixed("ü"))).toBe("00000002c3bc");
  });

  test("also of a view into a larger buffer", () => {
    const view = new Uint8Array([9, 1, 2, 9]).subarray(1, 3);
    expect(hex(lengthPrefixed(view))).toBe("000000020102");
  });

  test("before they are hashed", () => {
    const { current } = createKeyRing([masterKeyA]);
    const joined = Buffer.from("0000000161000000026263", "hex");
    expect(hex(hmac(current.code, "a", "bc"))).toBe(
      createHmac("sha256", Buffer.from(exported(current.code), "hex"))
        .update(joined)
        .digest("hex"),
    );
    expect(hex(digest("a", "bc"))).not.toBe(hex(digest("ab", "c")));
  });
});
