/**
 * API keys: `otp_live_<id>_<secret><crc>`, or `otp_test_…` for the sandbox. The id (10 characters) finds the key, the
 * secret (32 characters of base62, 190 bits) proves it, and the checksum (6 characters) lets a scanner or this server
 * reject a typo without a look into the database. Only a SHA-256 digest of the secret is stored: at 190 random bits a
 * slow hash would guard nothing. Keys do not depend on the master key.
 *
 * A publishable key (`otp_pub_…`, `otp_pubtest_…`) stands in web pages and apps, where everybody can read it: its
 * secret is secret by name only. What guards it is that it may do little, from the origins it lists, and under the
 * limits of the caller's address.
 */
import { timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import type { Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import { digest } from "./key-ring.ts";
import { ok, refuse, type Result } from "../reason.ts";
import { Secret } from "./secret.ts";

export const scopes = ["send", "verify", "resend", "read", "cancel"] as const;

/** What a key may do. `send` includes `resend`. */
export type Scope = (typeof scopes)[number];

/** What a secret key may do unless told otherwise. */
export const secretScopes: readonly Scope[] = ["send", "verify", "read", "cancel"];

/** What a publishable key may do; `send` only where its maker allowed it. */
export const publishableScopes: readonly Scope[] = ["verify", "resend", "read", "cancel"];

/** The longest name of a key. */
export const keyNameCharsMax = 64;

export const keyKinds = ["live", "test", "pub", "pubtest"] as const;

/** Secret or publishable, and what the key works on: the real thing, or the sandbox (otp/message/sandbox.ts). */
export type KeyKind = (typeof keyKinds)[number];

/** True for a key that everybody can read. Pure. */
export function isPublishable(kind: KeyKind): boolean {
  return kind === "pub" || kind === "pubtest";
}

/** True for a key of the sandbox. Pure. */
export function isTest(kind: KeyKind): boolean {
  return kind === "test" || kind === "pubtest";
}

/** The channels that a key is bound to; undefined for one that may use any. Pure. */
export function channelsNamed({ kind, channels }: Pick<ApiKey, "kind" | "channels">): readonly Channel[] | undefined {
  return isPublishable(kind) ? channels : undefined;
}

/** Every word that the text of a key may begin with: a caller's kinds, and that of operators (admin-key.ts). */
const wordedKinds = [...keyKinds, "admin"] as const;
export type WordedKind = (typeof wordedKinds)[number];

/** What is stored of a key. */
export interface ApiKey {
  readonly id: string;
  readonly kind: KeyKind;
  readonly tenant: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Where a publishable key may be used from, in canonical form (otp/keys/origin.ts). None for a secret key. */
  readonly origins: readonly string[];
  /** True for a publishable key of native apps, which send no Origin. */
  readonly isApp: boolean;
  /** The channels that a publishable key may use. They mean nothing to a secret key, which may use any. */
  readonly channels: readonly Channel[];
  readonly digest: Uint8Array;
  readonly createMs: Instant;
  readonly expireMs: Instant | null;
  readonly revokeMs: Instant | null;
  /** Written at most once a minute. */
  readonly lastUseMs: Instant | null;
  /** When it was last tried after it was revoked or had ended; written at most once a minute. */
  readonly lastRefuseMs: Instant | null;
}

const idChars = 10;
const secretChars = 32;
const crcChars = 6;
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const shape = new RegExp(
  `^otp_(${wordedKinds.join("|")})_([0-9A-Za-z]{${idChars}})_([0-9A-Za-z]{${secretChars}})([0-9A-Za-z]{${crcChars}})$`,
);

/** Random bytes that a new key takes. */
export const apiKeyBytes = 128;

/** Makes a key from `apiKeyBytes` random bytes: the text to show once, its id, and the digest to store. Pure. */
export function makeApiKey(kind: WordedKind, random: Uint8Array): { id: string; text: Secret; digest: Uint8Array } {
  // A byte of 248 or more would favour the first characters; of 128 bytes at least 42 are below it, but for odds of
  // one in 10⁸⁰.
  const letters = [...random].filter((byte) => byte < 248).map((byte) => alphabet.charAt(byte % 62));
  if (letters.length < idChars + secretChars) throw new Error("not enough randomness for a key");
  const id = letters.slice(0, idChars).join("");
  const secret = letters.slice(idChars, idChars + secretChars).join("");
  const stem = `otp_${kind}_${id}_${secret}`;
  return { id, text: new Secret(stem + checksum(stem)), digest: digestOf(kind, secret) };
}

/** A key's kind is part of what is proven: a test key does not become a live one by its first letters. */
function digestOf(kind: string, secret: string): Uint8Array {
  return digest("otp/v1/api-key", kind, secret);
}

/** Whether a key may do what needs this scope. Pure. */
export function mayDo(key: Pick<ApiKey, "scopes">, scope: Scope): boolean {
  return key.scopes.includes(scope) || (scope === "resend" && key.scopes.includes("send"));
}

const withoutScheme = "The API key has to come with its scheme: send the header Authorization: Bearer <API_KEY>.";

/** A key that a caller presented, well-formed but not yet compared. */
export interface PresentedKey<Kind extends WordedKind = KeyKind> {
  readonly kind: Kind;
  readonly id: string;
  readonly digest: Uint8Array;
}

/**
 * True where `Authorization` names any key, whatever it is worth. Not by a pattern of white space: with 12,000 no-break spaces
 * before a letter, which HTTP takes and no parser trims, that took 0.1 s. Pure.
 */
export function hasKey(header: string | undefined): header is string {
  return header !== undefined && !/^(?:bearer)?$/i.test(header.trim());
}

/**
 * Reads `Authorization`: API_KEY_MISSING without a key, API_KEY_INVALID unless it is a bearer key of one of these kinds with a
 * right checksum. Pure.
 */
export function parseKey<Kind extends WordedKind>(
  header: string | undefined,
  kinds: readonly Kind[],
): Result<PresentedKey<Kind>> {
  if (!hasKey(header)) return refuse("API_KEY_MISSING");
  if (!/^bearer[ \t]/i.test(header)) return refuse("API_KEY_INVALID", { message: withoutScheme });
  const text = /^bearer[ \t]+(\S+)[ \t]*$/i.exec(header)?.[1];
  const parts = text === undefined ? null : shape.exec(text);
  const [whole, word, id, secret, crc] = parts ?? [];
  if (whole === undefined || id === undefined || secret === undefined || crc !== checksum(whole.slice(0, -crcChars))) {
    return refuse("API_KEY_INVALID");
  }
  const kind = kinds.find((each) => each === word);
  return kind === undefined ? refuse("API_KEY_INVALID") : ok({ kind, id, digest: digestOf(kind, secret) });
}

/**
 * Judges a presented key by what is stored under its id: API_KEY_INVALID for none or a wrong secret; only once the
 * secret matched is it told that it was revoked or has expired. Pure.
 */
export function judgeKey<Key extends Pick<ApiKey, "digest" | "revokeMs" | "expireMs">>(
  presented: Pick<PresentedKey, "digest">,
  stored: Key | undefined,
  now: Instant,
): Result<Key> {
  if (stored === undefined || !timingSafeEqual(presented.digest, stored.digest)) return refuse("API_KEY_INVALID");
  if (stored.revokeMs !== null) return refuse("API_KEY_REVOKED");
  if (stored.expireMs !== null && stored.expireMs <= now) return refuse("API_KEY_EXPIRED");
  return ok(stored);
}

function checksum(stem: string): string {
  let rest = crc32(stem);
  let text = "";
  for (let i = 0; i < crcChars; i++) {
    text = alphabet.charAt(rest % 62) + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}
