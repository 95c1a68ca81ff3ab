/**
 * The keys behind everything derived: one master key of 32 bytes, spread by HKDF-SHA-256 into one key per purpose, so
 * that none can stand in for another. `OTP_MASTER_KEY` is a list: the first key is current and writes, the others still
 * read. A row carries the id of the key it was written with (`kid`), a number that the key itself determines.
 */
import { createHmac, createSecretKey, hash, hkdfSync, type KeyObject } from "node:crypto";
import { createSigningKey, type SigningKey } from "./signing-key.ts";

/** One master key, spread out. */
export interface MasterKey {
  /** 32 bits derived from the key: tells keys apart, reveals nothing. */
  readonly kid: number;
  /** 16 bytes derived from the key. The database keeps it, so that another key with the same kid is noticed. */
  readonly check: Uint8Array;
  readonly code: KeyObject;
  readonly phoneIndex: KeyObject;
  readonly phoneEncryption: KeyObject;
  readonly fingerprint: KeyObject;
  /** For the names that records of Idempotency-Keys are stored under. */
  readonly idempotencySlot: KeyObject;
  /** For the values that callers count sends by. */
  readonly namedLimit: KeyObject;
  /** For the names that messages have with providers. */
  readonly reference: KeyObject;
  /** For the secrets of tenants' endpoints. */
  readonly webhook: KeyObject;
  /** For the tokens of pages (page-token.ts). */
  readonly page: KeyObject;
  /** Signs receipts, and those of the sandbox. */
  readonly receipt: SigningKey;
  readonly receiptTest: SigningKey;
  /** True if others may have it: what is signed with it proves nothing. */
  readonly isLeaked: boolean;
}

/** All configured master keys. */
export interface KeyRing {
  readonly current: MasterKey;
  /** Every key, the current one first. */
  readonly all: readonly MasterKey[];
  /** The key with this id, if it is configured. */
  find(kid: number): MasterKey | undefined;
}

export const masterKeyBytes = 32;

/** Spreads master keys of 32 bytes each, the current one first, at least one. `leaked` are those of them that leaked. */
export function createKeyRing(masterKeys: readonly Uint8Array[], leaked: readonly Uint8Array[] = []): KeyRing {
  const all = masterKeys.map((master) => spread(master, leaked.includes(master)));
  const [current] = all;
  if (current === undefined) throw new Error("a key ring needs at least one key");
  const byKid = new Map(all.map((key) => [key.kid, key]));
  return { current, all, find: (kid) => byKid.get(kid) };
}

function spread(master: Uint8Array, isLeaked: boolean): MasterKey {
  if (master.length !== masterKeyBytes) throw new Error(`a master key has ${masterKeyBytes} bytes`);
  const derive = (label: string, bytes = 32) =>
    new Uint8Array(hkdfSync("sha256", master, "", `otp/v1/${label}`, bytes));
  // Made once: an HMAC with a ready KeyObject costs a fifth of one that imports its key at every call.
  const key = (label: string) => createSecretKey(derive(label));
  const check = derive("key-check", 16);
  return {
    kid: new DataView(derive("kid", 4).buffer).getUint32(0),
    check,
    code: key("code"),
    phoneIndex: key("phone-index"),
    phoneEncryption: key("phone-encryption"),
    fingerprint: key("fingerprint"),
    idempotencySlot: key("idempotency-slot"),
    namedLimit: key("named-limit"),
    reference: key("reference"),
    webhook: key("webhook"),
    page: key("page-token"),
    receipt: createSigningKey(derive("receipt")),
    receiptTest: createSigningKey(derive("receipt-test")),
    isLeaked,
  };
}

/** Joins fields so that no two different lists give the same bytes: each is preceded by its length in 4 bytes. */
export function lengthPrefixed(...fields: (string | Uint8Array)[]): Buffer {
  let bytes = 0;
  for (const field of fields) bytes += 4 + (typeof field === "string" ? Buffer.byteLength(field) : field.length);
  const joined = Buffer.allocUnsafe(bytes);
  let end = 0;
  for (const field of fields) {
    if (typeof field !== "string") joined.set(field, end + 4);
    const length = typeof field === "string" ? joined.write(field, end + 4) : field.length;
    end = joined.writeUInt32BE(length, end) + length;
  }
  return joined;
}

/** HMAC-SHA-256 over length-prefixed fields. */
export function hmac(key: KeyObject, ...fields: (string | Uint8Array)[]): Buffer {
  return createHmac("sha256", key)
    .update(lengthPrefixed(...fields))
    .digest();
}

/** SHA-256 over length-prefixed fields. For values that are no secret or hold at least 112 random bits. */
export function digest(...fields: (string | Uint8Array)[]): Buffer {
  return hash("sha256", lengthPrefixed(...fields), "buffer");
}
