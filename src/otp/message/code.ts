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
import { hmac, type KeyRing } from "../keys/key-ring.ts";
import { Secret } from "../keys/secret.ts";

export const saltBytes = 16;
export const codeLengthMax = 10;

/** Longer than any code with a space and a hyphen between its digits. */
const typedCharsMax = 32;

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
  if (text.length > typedCharsMax) return undefined;
  const bare = text.replace(/[ -]/g, "");
  return bare.length === digits && /^[0-9]+$/.test(bare) ? new Secret(bare) : undefined;
}

/** Says what is wrong with what `parseCode` refused, and what is expected, without repeating any of it. Pure. */
export function whyNoCode(typed: Secret, digits: number): string {
  return `code must have ${digits} digits, ${faultOf(typed.reveal(), digits)}. No attempt was spent.`;
}

function faultOf(text: string, digits: number): string {
  const bare = text.replace(/[ -]/g, "");
  if (bare === "") return "but it is empty";
  if (/[\r\n]/.test(bare)) return "but it has a line break in it";
  if (/\D/.test(bare)) return "from 0 to 9, but it has other characters in it";
  if (bare.length !== digits) return `but it has too ${bare.length < digits ? "few" : "many"}`;
  return `but it has more than ${typedCharsMax} characters`;
}

/** Compares two codes in constant time. */
export function codesMatch(a: Code, b: Code): boolean {
  const left = Buffer.from(a.reveal(), "latin1");
  const right = Buffer.from(b.reveal(), "latin1");
  return left.length === right.length && timingSafeEqual(left, right);
}
