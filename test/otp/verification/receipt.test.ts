/**
 * Receipts, as a backend reads them: by another implementation, with the published keys and nothing else.
 */
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from "jose";
import { describe, expect, test } from "vitest";
import { createKeyRing, type KeyRing } from "../../../src/otp/keys/key-ring.ts";
import { receiptKeys, receiptOf } from "../../../src/otp/verification/receipt.ts";
import { bindOf, canonicalBind, type Verification } from "../../../src/otp/verification/verification.ts";
import { endedAs, keys, masterKeyA, masterKeyB, phone, verificationOf } from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

const parties = { issuer: "https://otp.example.com", audience: "shop" };
const epoch = testEpochMs / 1000;

function receipt(changes: Partial<Verification> = {}, ring: KeyRing = keys): string {
  return receiptOf(ring.current, endedAs("VERIFIED", changes), phone.e164, parties);
}

/** Reads a receipt with the keys that a ring publishes, a minute after it was given. */
function read(jwt: string, ring: KeyRing = keys) {
  const published = JSON.parse(JSON.stringify(receiptKeys(ring))) as JSONWebKeySet;
  return jwtVerify(jwt, createLocalJWKSet(published), {
    algorithms: ["EdDSA"],
    issuer: parties.issuer,
    audience: parties.audience,
    currentDate: new Date(testEpochMs + 61_000),
  });
}

describe("a receipt", () => {
  test("says who proved what to whom, when, and for how long", async () => {
    const bind = canonicalBind({ payee: "Ann", amount: "10" });
    const { payload, protectedHeader } = await read(receipt({ bind }));
    expect(payload).toEqual({
      iss: "https://otp.example.com",
      aud: "shop",
      sub: "q83vEjRWeJCrze8SNFZ4kA",
      phone: "+31612345678",
      channels: ["sms"],
      purpose: "login",
      bind: { amount: "10", payee: "Ann" },
      iat: epoch + 1,
      exp: epoch + 301,
      jti: "q83vEjRWeJCrze8SNFZ4kA",
    });
    expect(protectedHeader).toEqual({ alg: "EdDSA", typ: "JWT", kid: keys.current.receipt.kid });
  });

  test("leaves out a purpose and a binding that were not given", () => {
    expect(Object.keys(decodeJwt(receipt({ purpose: "" })))).toEqual([
      "iss",
      "aud",
      "sub",
      "phone",
      "channels",
      "iat",
      "exp",
      "jti",
    ]);
  });

  test("counts from the second in which the code was verified", () => {
    expect(decodeJwt(receipt({ endMs: testEpochMs + 1_999 }))).toMatchObject({ iat: epoch + 1, exp: epoch + 301 });
  });

  test("is the same whenever it is asked for, and another for another verification", () => {
    expect(receipt()).toBe(receipt());
    expect(receipt({ id: "AAAAAAAAAAAAAAAAAAAAAA" })).not.toBe(receipt());
  });

  test("of the sandbox says so, and is signed with another key", async () => {
    const jwt = receipt({ tenant: "default+test" });
    expect((await read(jwt)).payload).toMatchObject({ aud: "shop", test: true });
    expect(decodeProtectedHeader(jwt).kid).toBe(keys.current.receiptTest.kid);
    expect(decodeJwt(receipt())).not.toHaveProperty("test");
  });

  test("that was changed, or signed by another key, is no receipt", async () => {
    const [head = "", claims = "", signature = ""] = receipt().split(".");
    const other = Buffer.from(JSON.stringify({ ...decodeJwt(receipt()), phone: "+31612345679" })).toString("base64url");
    await expect(read(`${head}.${other}.${signature}`)).rejects.toThrow("signature verification failed");
    const unsigned = Buffer.from('{"alg":"none"}').toString("base64url");
    await expect(read(`${unsigned}.${claims}.`)).rejects.toThrow('"alg"');
    await expect(read(receipt({}, createKeyRing([masterKeyB])))).rejects.toThrow("no applicable key");
  });

  test("is there for nothing but what was verified", () => {
    const of = (verification: Verification) => () => receiptOf(keys.current, verification, phone.e164, parties);
    expect(of(verificationOf())).toThrow("only what is verified");
    for (const state of ["EXPIRED", "LOCKED", "CANCELED", "FAILED"] as const) {
      expect(of(endedAs(state))).toThrow("only what is verified");
    }
  });
});

describe("the published keys", () => {
  const [old, both, swapped] = [[masterKeyA], [masterKeyA, masterKeyB], [masterKeyB, masterKeyA]].map((list) =>
    createKeyRing(list),
  );

  test("are public halves, and nothing more", () => {
    for (const key of receiptKeys(keys).keys) {
      expect(Object.keys(key).toSorted()).toEqual(["alg", "crv", "kid", "kty", "use", "x"]);
    }
  });

  test("are those of every master key, live and test, each under a name of its own", () => {
    const kids = receiptKeys(both as KeyRing).keys.map(({ kid }) => kid);
    expect(new Set(kids).size).toBe(4);
    expect(new Set(receiptKeys(swapped as KeyRing).keys.map(({ kid }) => kid))).toEqual(new Set(kids));
  });

  test("read receipts from before a rotation, and those from after it", async () => {
    const before = receipt({}, old);
    const after = receipt({}, swapped);
    expect(decodeProtectedHeader(before).kid).not.toBe(decodeProtectedHeader(after).kid);
    for (const jwt of [before, after]) expect((await read(jwt, swapped)).payload.sub).toBe("q83vEjRWeJCrze8SNFZ4kA");
    // The new key was published before it signed.
    expect((await read(after, both)).payload.sub).toBe("q83vEjRWeJCrze8SNFZ4kA");
  });
});

test("a binding comes back out of its canonical form as it went in", () => {
  for (const bind of [{}, { a: "" }, { b: "2", a: '"1"' }, JSON.parse('{"__proto__":"x"}') as Record<string, string>]) {
    expect(canonicalBind(bindOf(canonicalBind(bind)))).toBe(canonicalBind(bind));
    expect(Object.keys(bindOf(canonicalBind(bind)))).toHaveLength(Object.keys(bind).length);
  }
});
