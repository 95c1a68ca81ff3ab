/**
 * The cookie that a session of the console lives in: how it is set, and how a request's session is found by it and
 * checked. No script reads it. Whoever acts with it proves to be a page of ours by the session's second token.
 */
import { timingSafeEqual } from "node:crypto";
import { csrfOf, type ConsoleSession, type ConsoleUser } from "../../otp/keys/console-session.ts";
import { digest } from "../../otp/keys/key-ring.ts";
import type { ConsoleSessions } from "../../service/operators/console-sessions.ts";
import type { Page } from "../pages/pages.ts";

export type Headers = Parameters<Page["answer"]>[0]["headers"];

/** What a request says of itself: its headers, and the other end of its connection. */
export interface ConsoleRequest {
  readonly headers: Headers;
  readonly peer: string | undefined;
}

export interface ConsoleOptions {
  readonly sessions: ConsoleSessions;
  /** The user that a reverse proxy has named, and what that user may; undefined where none is believed or none is named. */
  readonly proxiedUser: (asked: ConsoleRequest) => ConsoleUser | undefined;
  /** Whether the browser speaks TLS: with this listener, or with a proxy that is believed. */
  readonly isSecure: (asked: ConsoleRequest) => boolean;
  /** From where it is asked, as the audit has it. */
  readonly addressOf: (asked: ConsoleRequest) => string;
}

/** Finds the session of a request, if it has one that holds. */
export async function sessionOf(
  { sessions, proxiedUser, isSecure }: ConsoleOptions,
  asked: ConsoleRequest,
): Promise<{ readonly session: ConsoleSession; readonly token: string } | undefined> {
  const token = cookieOf(asked.headers, cookieName(isSecure(asked)));
  const session = token === undefined ? undefined : await sessions.find(token);
  if (token === undefined || session === undefined) return undefined;
  // The proxy's user may have changed meanwhile, or may not be let in any more.
  if (session.isProxied && !isSame(proxiedUser(asked), session)) return undefined;
  return { session, token };
}

function isSame(named: ConsoleUser | undefined, { user, scopes, tenant }: ConsoleSession): boolean {
  return named?.user === user && named.tenant === tenant && named.scopes.join() === scopes.join();
}

/** Whether a request brings the cookie of a session, whatever it is worth. */
export function hasSession({ isSecure }: Pick<ConsoleOptions, "isSecure">, asked: ConsoleRequest): boolean {
  return cookieOf(asked.headers, cookieName(isSecure(asked))) !== undefined;
}

/** Whether a request with a session's cookie comes from a page of ours: it has the session's second token. */
export function provesPage({ headers }: ConsoleRequest, token: string): boolean {
  const brought = headers["x-csrf-token"];
  return typeof brought === "string" && timingSafeEqual(digest(brought), digest(csrfOf(token)));
}

// ---- its name and text ----------------------------------------------------------------------------------------------

/** A browser takes the prefix's promise: this very host set it, over TLS. Without TLS it would not take it at all. */
function cookieName(isSecure: boolean): CookieName {
  return isSecure ? "__Host-otpd-console" : "otpd-console";
}

/** The last of a name: browsers send those of longer paths first, which are another page's of this host. */
const cookies = {
  "__Host-otpd-console": /^(?:.*;)? *__Host-otpd-console=([^;=\s]+)/,
  "otpd-console": /^(?:.*;)? *otpd-console=([^;=\s]+)/,
};
type CookieName = keyof typeof cookies;

/** The text that sets the cookie to a token. */
export function cookie(token: string, isSecure: boolean, lifeMs: number): string {
  const flags = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${Math.floor(lifeMs / 1_000)}`;
  return `${cookieName(isSecure)}=${token}; ${flags}${isSecure ? "; Secure" : ""}`;
}

/** Looked for and not taken apart: 7,500 names in one header would take 1 ms, before anybody is known. */
function cookieOf(headers: Headers, name: CookieName): string | undefined {
  const given = headers["cookie"];
  return typeof given === "string" ? cookies[name].exec(given)?.[1] : undefined;
}
