/**
 * The code is never stored, not even hashed: it is derived from a key that lives only outside the database and a salt
 * that lives only in the verification's row, and a thief needs both. A resend derives the same code again, and the
 * outbox needs no secret at rest. Once the salt is erased nothing verifies.
 *
 *   code = HMAC-SHA-256(code key, "otp/v1", tenant, request_id, salt) → first 64 bits, modulo 10^digits
 *
 * 64 bits keep the bias below 6·10⁻¹⁰ at ten digits. RFC 4226's 31 bits would favour some codes by 2.4 % at eight.
 */
import { timingSafeEqual } from "node:crypto";
import { hmac, type KeyRing } from "./key-ring.ts";
import { Secret } from "./secret.ts";

export const saltBytes = 16;
export const codeLengthMax = 10;

/** What determines a code. */
export interface CodeSource {
  readonly tenant: string;
  readonly id: string;
  readonly kid: number;
  /** 16 random bytes, or null once erased. */
  readonly salt: Uint8Array | null;
  /** How many digits, 6 to 10. */
  readonly digits: number;
}

/** A code of 6 to 10 ASCII digits. */
export type Code = Secret & { readonly kind?: "code" };

/** Derives the code of a verification; undefined when its salt is erased or its key is not configured. Pure. */
export function deriveCode(keys: KeyRing, source: CodeSource): Code | undefined {
  const key = keys.find(source.kid);
  if (key === undefined || source.salt === null) return undefined;
  const mac = hmac(key.code, "otp/v1", source.tenant, source.id, source.salt);
  const number = mac.readBigUInt64BE(0) % 10n ** BigInt(source.digits);
  return new Secret(number.toString().padStart(source.digits, "0"));
}

/**
 * Reads what a user typed: spaces and hyphens dropped, then exactly `digits` ASCII digits. Undefined for anything else,
 * full-width digits and a trailing NUL included. Pure.
 */
export function parseCode(typed: Secret, digits: number): Code | undefined {
  const text = typed.reveal();
  if (text.length > 32) return undefined;
  const bare = text.replace(/[ -]/g, "");
  return bare.length === digits && /^[0-9]+$/.test(bare) ? new Secret(bare) : undefined;
}

/** Compares two codes in constant time. */
export function codesMatch(a: Code, b: Code): boolean {
  const left = Buffer.from(a.reveal(), "latin1");
  const right = Buffer.from(b.reveal(), "latin1");
  return left.length === right.length && timingSafeEqual(left, right);
}
