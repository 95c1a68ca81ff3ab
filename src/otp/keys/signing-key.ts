/**
 * Keys that sign for the world: Ed25519, each made from a seed, and known by the thumbprint of its public half (RFC 7638).
 * What they sign is a JWS in its compact form, whose header is the key's own and never varies.
 *
 * By node:crypto, and read back by jose in the tests: docs/decisions.md says why.
 */
import { createHash, createPrivateKey, createPublicKey, sign, type KeyObject } from "node:crypto";

/** The public half of a key, as a JWK set lists it. */
export interface PublicJwk {
  readonly kty: "OKP";
  readonly crv: "Ed25519";
  /** 32 bytes in base64url. */
  readonly x: string;
  readonly kid: string;
  readonly alg: "EdDSA";
  readonly use: "sig";
}

export interface SigningKey {
  /** 43 characters of base64url. */
  readonly kid: string;
  readonly publicJwk: PublicJwk;
  readonly privateKey: KeyObject;
  /** What each of its signatures begins with: the protected header, encoded. */
  readonly header: string;
}

const signingSeedBytes = 32;

/** PKCS #8 around an Ed25519 seed (RFC 8410): all that comes before the seed's own 32 bytes. */
const pkcs8Prefix = Buffer.from("302e020100300506032b657004220420", "hex");

/** Makes the key of a seed of 32 bytes. Pure. */
export function createSigningKey(seed: Uint8Array): SigningKey {
  if (seed.length !== signingSeedBytes) throw new Error(`a signing key is made of ${signingSeedBytes} bytes`);
  const privateKey = createPrivateKey({ key: Buffer.concat([pkcs8Prefix, seed]), format: "der", type: "pkcs8" });
  const { x } = createPublicKey(privateKey).export({ format: "jwk" });
  if (x === undefined) throw new Error("an Ed25519 key has a public half");
  // The members that the thumbprint is taken of, in the one order it is taken in.
  const kid = createHash("sha256").update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest("base64url");
  return {
    kid,
    publicJwk: { kty: "OKP", crv: "Ed25519", x, kid, alg: "EdDSA", use: "sig" },
    privateKey,
    header: encode({ alg: "EdDSA", typ: "JWT", kid }),
  };
}

/** Signs claims: a JWT. The same claims give the same bytes, since Ed25519 takes no chance. Pure. */
export function signClaims(key: SigningKey, claims: Readonly<Record<string, unknown>>): string {
  const signed = `${key.header}.${encode(claims)}`;
  return `${signed}.${sign(null, Buffer.from(signed), key.privateKey).toString("base64url")}`;
}

function encode(json: object): string {
  return Buffer.from(JSON.stringify(json)).toString("base64url");
}
