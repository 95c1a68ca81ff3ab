/**
 * Keys that sign: made of a seed as the RFCs have it, and what they sign is read by another implementation.
 */
import { compactVerify, importJWK } from "jose";
import { describe, expect, test } from "vitest";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import { createSigningKey, signClaims } from "../../../src/otp/keys/signing-key.ts";
import { masterKeyA, masterKeyB } from "../../support/data/examples.ts";

describe("a key", () => {
  test("has the public half and the thumbprint of RFC 8037's example", () => {
    const key = createSigningKey(Buffer.from("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", "base64url"));
    expect(key.publicJwk).toEqual({
      kty: "OKP",
      crv: "Ed25519",
      x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
      kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
      alg: "EdDSA",
      use: "sig",
    });
  });

  test("is not made of fewer bytes, or more", () => {
    for (const bytes of [0, 31, 33, 64]) expect(() => createSigningKey(new Uint8Array(bytes))).toThrow("32 bytes");
  });

  test("signs what another implementation verifies, and the same twice", async () => {
    const key = createKeyRing([masterKeyA]).current.receipt;
    const jws = signClaims(key, { sub: "é €", n: 1 });
    const read = await compactVerify(jws, await importJWK(key.publicJwk));
    expect(read.protectedHeader).toEqual({ alg: "EdDSA", typ: "JWT", kid: key.kid });
    expect(new TextDecoder().decode(read.payload)).toBe('{"sub":"é €","n":1}');
    expect(signClaims(key, { sub: "é €", n: 1 })).toBe(jws);
  });
});

describe("a master key has two of them", () => {
  // Computed apart from this code base, with Python's hmac, hashlib and cryptography.
  test.each<{ name: string; master: Uint8Array; of: "receipt" | "receiptTest"; x: string; kid: string }>([
    {
      name: "masterKeyA",
      master: masterKeyA,
      of: "receipt",
      x: "4Fj9bUWnOSMuUaEPduqQ_A4DJde_BbetUAH2WrNz2Ak",
      kid: "AucnGh1mXvcKG1mQ7xg7qwKMcdqGjgB5nhwLLxdmLjM",
    },
    {
      name: "masterKeyA",
      master: masterKeyA,
      of: "receiptTest",
      x: "MRlERpuHqEq2xX4HmugHaLDf98-dhGZ3IeUY7i_3VpU",
      kid: "ReuIT7Ysfu43tTMnYNumtdvvXw4h58D4g5E6xk-CHW4",
    },
    {
      name: "masterKeyB",
      master: masterKeyB,
      of: "receipt",
      x: "Ea9PeOsZgogvCBImKqtJnr-I7qLmhLd7XbtNYRpVvUk",
      kid: "hFbIn7XD2vOLTigGpF2-boUU6sRE1pboAMUvK9wP6Vc",
    },
    {
      name: "masterKeyB",
      master: masterKeyB,
      of: "receiptTest",
      x: "ktjB_Ifj1VZcJUABa0Aw3kYcTXnBHFNsvJnTjRgRt1g",
      kid: "BUFn6Nfz5tHmUO-QcLg42_B6PijE4NTjmbyBy7pb0ek",
    },
  ])("with the $of of $name", ({ master, of, x, kid }) => {
    const { publicJwk } = createKeyRing([master]).current[of];
    expect(publicJwk).toMatchObject({ x, kid });
  });
});
