/**
 * The console as browsers get it: its page, script and style, which hold nothing private, and sign-in. A link's token is spent
 * by POST for a session, which lives in a cookie that no script reads. Whoever acts with the cookie proves to be a page of our
 * own in two ways: the origin that the browser names is ours, and a header has the session's second token.
 */
import { timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import { csrfOf, endOf, sessionMs, type ConsoleSession, type ConsoleUser } from "../../otp/keys/console-session.ts";
import { digest } from "../../otp/keys/key-ring.ts";
import { invalid, ok, type Result } from "../../otp/reason.ts";
import { readOwnFile } from "../../own-files.ts";
import type { BegunSession, ConsoleSessions } from "../../service/operators/console-sessions.ts";
import { isOwnOrigin } from "../http/own-origin.ts";
import type { PageAnswer } from "../http/response.ts";
import { ownPageHeaders } from "../pages/own-page.ts";
import type { Page, PagesByPath } from "../pages/pages.ts";
import { timeOf } from "../../system.ts";

type Headers = Parameters<Page["answer"]>[0]["headers"];

/** What a request says of itself: its headers, and the other end of its connection. */
export interface Asked {
  readonly headers: Headers;
  readonly peer: string | undefined;
}

export interface ConsoleOptions {
  readonly sessions: ConsoleSessions;
  /** The user that a reverse proxy has named, and what that user may; undefined where none is believed or none is named. */
  readonly proxiedUser: (asked: Asked) => ConsoleUser | undefined;
  /** Whether the browser speaks TLS: with this listener, or with a proxy that is believed. */
  readonly isSecure: (asked: Asked) => boolean;
  /** From where it is asked, as the audit has it. */
  readonly addressOf: (asked: Asked) => string;
}

const guards = { ...ownPageHeaders, "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin" };

const tokenShape = v.strictObject({ token: v.pipe(v.string(), v.maxLength(100)) });

export function createConsole(options: ConsoleOptions): PagesByPath {
  return new Map<string, Page>([
    ["/console", file("text/html", "src/console/index.html")],
    ["/console/console.js", file("text/javascript", "gen/console/console.js")],
    ["/console/console.css", file("text/css", "gen/console/console.css")],
    ["/console/icon.svg", file("image/svg+xml", "src/console/icon.svg")],
    ["/console/session", sessionPage(options)],
    ["/console/session/end", endPage(options, ({ sessions }, token) => sessions.end(token))],
    ["/console/session/end-all", endPage(options, ({ sessions }, _, { user }) => sessions.endAll(user))],
  ]);
}

/** Finds the session of a request, if it has one that holds. */
export async function sessionOf(
  { sessions, proxiedUser, isSecure }: ConsoleOptions,
  asked: Asked,
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
export function hasSession({ isSecure }: Pick<ConsoleOptions, "isSecure">, asked: Asked): boolean {
  return cookieOf(asked.headers, cookieName(isSecure(asked))) !== undefined;
}

/** Whether a request with a session's cookie comes from a page of ours: it has the session's second token. */
export function provesPage({ headers }: Asked, token: string): boolean {
  const brought = headers["x-csrf-token"];
  return typeof brought === "string" && timingSafeEqual(digest(brought), digest(csrfOf(token)));
}

function sessionPage(options: ConsoleOptions): Page {
  const { sessions, proxiedUser } = options;
  return {
    methods: ["GET", "POST"],
    looks: true,
    async answer({ method, headers, body, peer }) {
      const asked = { headers, peer };
      if (method === "GET") {
        const found = isStrange(headers) ? undefined : await sessionOf(options, asked);
        if (found !== undefined) return ok(signedIn(found.session, found.token));
        const user = isStrange(headers) ? undefined : proxiedUser(asked)?.user;
        return ok(user === undefined ? signedOut : json(401, { ...noSession, user }));
      }
      if (!isOwnPost(headers)) return ok(strange);
      const given = read(body);
      if (!given.ok) return given;
      const named = proxiedUser(asked);
      const address = options.addressOf(asked);
      const begun =
        given.value === "" && named !== undefined
          ? await sessions.begin(named, address)
          : await sessions.spend(given.value, address);
      return ok(begun === undefined ? signedOut : begin(begun, options.isSecure(asked)));
    },
  };
}

function endPage(
  options: ConsoleOptions,
  end: (options: ConsoleOptions, token: string, session: ConsoleSession) => Promise<void>,
): Page {
  return {
    methods: ["POST"],
    looks: true,
    async answer({ headers, peer }) {
      const asked = { headers, peer };
      const found = await sessionOf(options, asked);
      if (found === undefined) return ok(signedOut);
      if (!isOwnPost(headers) || !provesPage(asked, found.token)) return ok(strange);
      await end(options, found.token, found.session);
      const isSecure = options.isSecure(asked);
      return ok(json(200, {}, { "set-cookie": cookie("", isSecure, 0) }));
    },
  };
}

/** The token in a body of sign-in. */
function read(body: Uint8Array): Result<string> {
  let given: unknown;
  try {
    given = JSON.parse(Buffer.from(body).toString("utf8"));
  } catch {
    given = undefined;
  }
  const parsed = v.safeParse(tokenShape, given);
  return parsed.success ? ok(parsed.output.token) : invalid("token", "token must be the one of a link, or empty.");
}

const noSession = { reason: "SESSION_INVALID", message: "There is no session. otpd console prints a link." };
/** Where a proxy names a user who may begin a session, the answer to GET has the `user` too. */
const signedOut = json(401, noSession);
const strange = json(403, { reason: "ORIGIN_NOT_ALLOWED", message: "No page but the console's own may do this." });

function begin({ session, token }: BegunSession, isSecure: boolean): PageAnswer {
  const answer = signedIn(session, token.reveal());
  return { ...answer, headers: { ...answer.headers, "set-cookie": cookie(token.reveal(), isSecure, sessionMs) } };
}

function signedIn(session: ConsoleSession, token: string): PageAnswer {
  const end = timeOf(endOf(session));
  return json(200, { user: session.user, csrf_token: csrfOf(token), expire_time: end });
}

function json(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): PageAnswer {
  return { status, type: "application/json", body: JSON.stringify(value), headers: { ...guards, ...headers } };
}

// ---- cookies and origins --------------------------------------------------------------------------------------------

/** A browser takes the prefix's promise: this very host set it, over TLS. Without TLS it would not take it at all. */
function cookieName(isSecure: boolean): CookieName {
  return isSecure ? "__Host-otpd-console" : "otpd-console";
}

const cookies = {
  "__Host-otpd-console": /(?:^|;) *__Host-otpd-console=([^;=\s]+)/,
  "otpd-console": /(?:^|;) *otpd-console=([^;=\s]+)/,
};
type CookieName = keyof typeof cookies;

function cookie(token: string, isSecure: boolean, lifeMs: number): string {
  const flags = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${Math.floor(lifeMs / 1_000)}`;
  return `${cookieName(isSecure)}=${token}; ${flags}${isSecure ? "; Secure" : ""}`;
}

/** Looked for and not taken apart: 7,500 names in one header would take 1 ms, before anybody is known. */
function cookieOf(headers: Headers, name: CookieName): string | undefined {
  const given = headers["cookie"];
  return typeof given === "string" ? cookies[name].exec(given)?.[1] : undefined;
}

/** A POST of a page of this very host. */
function isOwnPost(headers: Headers): boolean {
  return !isStrange(headers) && isOwnOrigin(String(headers["origin"]), headers);
}

/** What a browser says was asked for by another site's page. */
function isStrange(headers: Headers): boolean {
  const site = headers["sec-fetch-site"];
  return site !== undefined && site !== "same-origin" && site !== "none";
}

/** One of the console's files. They are read at the start, so that a missing one is found there. */
function file(type: string, path: string): Page {
  const body = readOwnFile(path);
  return {
    methods: ["GET", "HEAD"],
    answer: async () => ok({ type: `${type}; charset=utf-8`, body, headers: guards }),
  };
}
