/**
 * Phone numbers are parsed once, as they come in. Inside there is only the canonical E.164 form: it is what is limited,
 * indexed, encrypted and sent to, so that no other spelling of a number can be a second number.
 *
 * At rest a number is two things. Its index is a keyed hash, to find and limit it by; an unkeyed one of every mobile
 * number on earth fits a laptop. Its box is the number, encrypted under a key that belongs to its one row.
 */
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { AsYouType, parsePhoneNumberFromString } from "libphonenumber-js/max";
import type { Channel } from "./channel.ts";
import { hmac, type KeyRing, type MasterKey } from "./keys/key-ring.ts";
import { ok, refuse, type Refusal, type Result } from "./reason.ts";

/** A number in E.164, such as `+31612345678`. */
export type E164 = string & { readonly brand: "E164" };

export interface PhoneNumber {
  readonly e164: E164;
  /**
   * ISO 3166-1 alpha-2, upper case, such as "NL"; `+44 7911…` is Guernsey's GG. Where the number plans do not say, the
   * calling code's country; "001" for a number of no country.
   */
  readonly region: string;
  readonly kind: PhoneKind;
}

/**
 * What the number plans say that a number is. `other` is of a kind that gets neither a text nor a call from here: premium
 * rate, shared cost, toll free and the like; `satellite` is of a network of no country; `unknown` is no number of any plan.
 */
export type PhoneKind = "mobile" | "landline" | "satellite" | "other" | "unknown";

/** Longer input is refused unread. */
const inputCharsMax = 32;

/** The region of a number that no country has: satellite and other international networks. */
const noCountry = "001";

/** The country for a calling code that several countries share, where the number itself does not tell. */
export const mainCountries: ReadonlyMap<string, string> = new Map([
  ["1", "US"],
  ["7", "RU"],
  ["39", "IT"],
  ["44", "GB"],
  ["47", "NO"],
  ["61", "AU"],
  ["212", "MA"],
  ["262", "RE"],
  ["290", "SH"],
  ["358", "FI"],
  ["590", "GP"],
  ["599", "CW"],
]);

/**
 * Reads a number as a person or a program may write it: `+`, then digits, with spaces and the usual punctuation anywhere.
 * Refuses as PHONE_INVALID what is not in international form or has text around it. What is in that form and yet no
 * valid number is of an unknown kind. Pure.
 */
export function parsePhoneNumber(typed: string): Result<PhoneNumber> {
  // libphonenumber folds full-width and Arabic-Indic digits into ASCII; a caller that sends those has not read the
  // user's input, and two spellings of one number are one too many.
  if (typed.length > inputCharsMax || !/^[ ().-]*\+[0-9 ().-]+$/.test(typed))
    return refuse("PHONE_INVALID", { field: "phone" });
  const input = typed.slice(typed.indexOf("+"));
  const parsed = parsePhoneNumberFromString(input, { extract: false });
  // With the whole metadata, a number is valid when it has a type; isValid() would find that out a second time.
  const type = parsed?.getType();
  if (parsed !== undefined && type !== undefined && parsed.ext === undefined) {
    const region = parsed.country ?? noCountry;
    return ok({ e164: parsed.number as E164, region, kind: kindOf(type, region) });
  }
  // Without a plan nobody can tell a trunk prefix from a digit, so such a number has one spelling: its digits as they
  // are. If one were taken away, both spellings would reach the same phone, with a bucket each.
  const e164 = `+${input.replaceAll(/\D/g, "")}`;
  if (!/^\+[1-9]\d{6,14}$/.test(e164) || (parsed !== undefined && parsed.number !== e164))
    return refuse("PHONE_INVALID", { field: "phone" });
  const region = parsed?.country ?? mainCountries.get(parsed?.countryCallingCode ?? "") ?? noCountry;
  return ok({ e164: e164 as E164, region, kind: "unknown" });
}

/** What the number plans say of a number in canonical form. Pure. */
export function readNumber(e164: E164): PhoneNumber {
  const parsed = parsePhoneNumber(e164);
  return parsed.ok ? parsed.value : { e164, region: noCountry, kind: "unknown" };
}

/** The country of a prefix (otp/limits/pumping-guard.ts), or its calling code where that is several countries'. Pure. */
export function countryOfPrefix(prefix: string): string {
  const number = parsePhoneNumber(`${prefix}0000`);
  if (number.ok && number.value.kind !== "unknown") return number.value.region;
  const begun = new AsYouType();
  begun.input(prefix);
  return begun.getCountry() ?? `+${begun.getCallingCode() ?? ""}`;
}

/** The kind of a valid number of this type. */
function kindOf(type: string, region: string): PhoneKind {
  if (type === "FIXED_LINE") return region === noCountry ? "satellite" : "landline";
  if (type !== "MOBILE" && type !== "FIXED_LINE_OR_MOBILE") return "other";
  return region === noCountry ? "satellite" : "mobile";
}

/**
 * What speaks against a message to a number by a channel, as far as the number plans know: PHONE_INVALID or
 * PHONE_NOT_MOBILE. Mobiles get all, landlines are called alone. Plans grow stale, so an operator's word may overturn it
 * (destination.ts). Pure.
 */
export function objectionTo({ kind }: Pick<PhoneNumber, "kind">, channel: Channel): Refusal | undefined {
  if (kind === "mobile" || (kind === "landline" && channel === "voice")) return undefined;
  if (kind === "unknown") return { reason: "PHONE_INVALID", field: "phone" };
  return kind === "satellite"
    ? {
        reason: "PHONE_NOT_MOBILE",
        field: "phone",
        message: `phone is of a satellite or international network, which gets ${gets[channel]} from here.`,
      }
    : { reason: "PHONE_NOT_MOBILE", field: "phone", message: unfit[channel] };
}

const gets: Readonly<Record<Channel, string>> = { sms: "no SMS", voice: "no call", whatsapp: "no WhatsApp message" };
const unfit: Readonly<Record<Channel, string>> = {
  sms: "phone is not a mobile number, so it gets no SMS.",
  voice: "phone is neither a mobile number nor a landline, so it is not called.",
  whatsapp: "phone is not a mobile number, so it gets no WhatsApp message.",
};

/** Hides a number for people: `+31612345678` becomes `+31•••••••78`. */
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

/**
 * The phones of boxes that somebody still holds. One call opens a box up to four times, and each time would cost a tenth of
 * the call. A box that is read from its row again is another box.
 */
const opened = new WeakMap<Uint8Array, { readonly id: string; readonly kid: number; readonly phone: E164 }>();

/** Encrypts a number for the row of one verification: AES-256-GCM under HMAC(phone-encryption key, request_id). */
export function sealPhone(key: MasterKey, id: string, phone: E164): Uint8Array {
  const cipher = createCipheriv("aes-256-gcm", rowKey(key, id), nonce, { authTagLength: tagBytes });
  const box = Buffer.concat([cipher.update(phone, "latin1"), cipher.final(), cipher.getAuthTag()]);
  opened.set(box, { id, kid: key.kid, phone });
  return box;
}

/** Decrypts what sealPhone made. Throws when the box was altered, or its key is not configured. */
export function openPhone(keys: KeyRing, kid: number, id: string, box: Uint8Array): E164 {
  const phone = readPhone(keys, kid, id, box);
  if (phone === undefined) throw new Error("a phone's box is not authentic");
  return phone;
}

/** The same; undefined when the box was altered. For work over many rows, which one damaged row must not stop. */
export function readPhone(keys: KeyRing, kid: number, id: string, box: Uint8Array): E164 | undefined {
  const key = keys.find(kid);
  if (key === undefined) throw new Error(`no master key with kid ${kid} is configured`);
  const known = opened.get(box);
  if (known?.id === id && known.kid === kid) return known.phone;
  const decipher = createDecipheriv("aes-256-gcm", rowKey(key, id), nonce, { authTagLength: tagBytes });
  try {
    decipher.setAuthTag(box.subarray(-tagBytes));
    const digits = decipher.update(box.subarray(0, -tagBytes), undefined, "latin1");
    const phone = (digits + decipher.final("latin1")) as E164;
    opened.set(box, { id, kid, phone });
    return phone;
  } catch {
    return undefined;
  }
}

function rowKey(key: MasterKey, id: string): KeyObject {
  // As a KeyObject: if it is a Buffer, Node's way to tell costs more than the encryption does.
  return createSecretKey(createHmac("sha256", key.phoneEncryption).update(id, "latin1").digest());
}
