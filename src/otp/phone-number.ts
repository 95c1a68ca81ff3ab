/**
 * Phone numbers are parsed once, at the door. Inside there is only the canonical E.164 form: it is what is limited,
 * indexed, encrypted and sent to, so that no other spelling of a number can be a second number.
 *
 * At rest a number is two things: an index, a keyed hash to find and limit it by (an unkeyed one of every mobile number
 * on earth fits a laptop), and a box encrypted under a key that belongs to its one row.
 */
import { createCipheriv, createDecipheriv, createHmac } from "node:crypto";
import { parsePhoneNumberFromString } from "libphonenumber-js/max";
import { hmac, type KeyRing, type MasterKey } from "./key-ring.ts";
import { ok, refuse, type Result } from "./reason.ts";

/** A valid number that can get an SMS, in E.164, such as `+31612345678`. */
export type E164 = string & { readonly brand: "E164" };

export interface PhoneNumber {
  readonly e164: E164;
  /** ISO 3166-1 alpha-2, upper case, such as "NL"; `+44 7911…` is Guernsey's GG. "001" for a number of no country. */
  readonly region: string;
}

/** Longer input is refused unread. */
const inputCharsMax = 32;

/**
 * Reads a number as a person or a program may write it: `+`, then digits, spaces and the usual punctuation.
 * Refuses as PHONE_INVALID what is not a valid number in international form, has an extension or text around it;
 * as PHONE_NOT_MOBILE a number of a kind that gets no SMS. Pure.
 */
export function parsePhoneNumber(input: string): Result<PhoneNumber> {
  // libphonenumber folds full-width and Arabic-Indic digits into ASCII; a caller that sends those has not read the
  // user's input, and two spellings of one number are one too many.
  if (input.length > inputCharsMax || !/^\+[0-9 ().-]+$/.test(input))
    return refuse("PHONE_INVALID", { field: "phone" });
  const parsed = parsePhoneNumberFromString(input, { extract: false });
  if (parsed === undefined || !parsed.isValid() || parsed.ext !== undefined) {
    return refuse("PHONE_INVALID", { field: "phone" });
  }
  const type = parsed.getType();
  if (type !== "MOBILE" && type !== "FIXED_LINE_OR_MOBILE") return refuse("PHONE_NOT_MOBILE", { field: "phone" });
  return ok({ e164: parsed.number as E164, region: parsed.country ?? "001" });
}

/** Hides a number for people: `+31612345678` becomes `+31••••••78`. */
export function maskPhone(e164: string): string {
  return e164.slice(0, 3) + "•".repeat(Math.max(0, e164.length - 5)) + e164.slice(-2);
}

export const phoneIndexBytes = 16;

/** The index of a number within a tenant under one key: 16 bytes. Pure. */
export function phoneIndex(key: MasterKey, tenant: string, e164: string): Uint8Array {
  return hmac(key.phoneIndex, tenant, e164).subarray(0, phoneIndexBytes);
}

// Each key encrypts one number once, so the nonce may be constant.
const nonce = Buffer.alloc(12);
const tagBytes = 16;

/** Encrypts a number for the row of one verification: AES-256-GCM under HMAC(phone-encryption key, request_id). */
export function sealPhone(key: MasterKey, id: string, e164: string): Uint8Array {
  const cipher = createCipheriv("aes-256-gcm", rowKey(key, id), nonce, { authTagLength: tagBytes });
  return Buffer.concat([cipher.update(e164, "latin1"), cipher.final(), cipher.getAuthTag()]);
}

/** Decrypts what sealPhone made. Throws when the box was altered, or its key is not configured. */
export function openPhone(keys: KeyRing, kid: number, id: string, box: Uint8Array): E164 {
  const key = keys.find(kid);
  if (key === undefined) throw new Error(`no master key with kid ${kid} is configured`);
  const decipher = createDecipheriv("aes-256-gcm", rowKey(key, id), nonce, { authTagLength: tagBytes });
  decipher.setAuthTag(box.subarray(box.length - tagBytes));
  return (decipher.update(box.subarray(0, box.length - tagBytes), undefined, "latin1") +
    decipher.final("latin1")) as E164;
}

function rowKey(key: MasterKey, id: string): Buffer {
  return createHmac("sha256", key.phoneEncryption).update(id, "latin1").digest();
}
