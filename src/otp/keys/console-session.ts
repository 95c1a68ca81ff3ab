/**
 * Sign-in to the console. A link works once and for ten minutes; it becomes a session, which ends half an hour after its last
 * use and twelve hours after it began (the ends of NIST 800-63B for its second level). Links and sessions are random tokens of
 * 256 bits, of which digests alone are stored.
 *
 * A page that uses a session proves by a second token, made of the session's, that it is a page of our own: no other
 * site can read that token, or send the header that it goes in.
 */
import type { Instant } from "../../system.ts";
import type { AdminScope } from "./admin-key.ts";
import { digest } from "./key-ring.ts";
import { Secret } from "./secret.ts";

export const linkMs = 600_000;
export const idleMs = 1_800_000;
export const sessionMs = 12 * 3_600_000;
/** The use of a session is noted once in so long. */
export const useNoteMs = 60_000;
/** Sessions of one user at once: one more ends the oldest. */
export const sessionsMax = 10;

export const tokenBytes = 32;

/** Who signs in, and what for. */
export interface ConsoleUser {
  /** 1 to 100 visible characters. */
  readonly user: string;
  readonly scopes: readonly AdminScope[];
  /** The tenant that it is bound to; null for none. */
  readonly tenant: string | null;
}

/** A link as it is stored. */
export interface ConsoleLink extends ConsoleUser {
  readonly digest: Uint8Array;
  readonly expireMs: Instant;
}

/** A session as it is stored. */
export interface ConsoleSession extends ConsoleUser {
  readonly digest: Uint8Array;
  /** True for one that a reverse proxy's header began: it holds as long as the proxy names the same user. */
  readonly isProxied: boolean;
  readonly createMs: Instant;
  /** To the minute. */
  readonly lastUseMs: Instant;
}

/** A token, of `tokenBytes` random bytes. Pure. */
export function tokenOf(random: Uint8Array): Secret {
  return new Secret(Buffer.from(random).toString("base64url"));
}

/** Whether a text may be a token. Pure. */
export function isToken(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/** What is stored of a link. Pure. */
export function linkDigest(token: string): Uint8Array {
  return digest("otp/v1/console-link", token);
}

/** What is stored of a session. Pure. */
export function sessionDigest(token: string): Uint8Array {
  return digest("otp/v1/console-session", token);
}

/** What a page of the session sends beside its cookie. Pure. */
export function csrfOf(token: string): string {
  return digest("otp/v1/console-csrf", token).toString("base64url");
}

/** When a session ends, unless it is used before. Pure. */
export function endOf({ createMs, lastUseMs }: Pick<ConsoleSession, "createMs" | "lastUseMs">): Instant {
  return Math.min(createMs + sessionMs, lastUseMs + idleMs);
}

/** A name that a user may have: it goes into the audit and the page. Pure. */
export function isUserName(text: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N}\p{P}\p{S} ]{0,99}$/u.test(text);
}
