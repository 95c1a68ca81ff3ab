/**
 * The console as browsers get it: its page, script and style, which hold nothing private, and sign-in. A link's
 * token is spent by POST for a session, which lives in a cookie (console-cookie.ts). Whoever acts with the cookie proves
 * to be a page of our own in two ways: the origin that the browser names is ours, and a header has the session's second
 * token.
 */
import * as v from "valibot";
import { csrfOf, endOf, sessionMs, type ConsoleSession } from "../../otp/keys/console-session.ts";
import { invalid, ok, type Result } from "../../otp/reason.ts";
import { readOwnFile } from "../../own-files.ts";
import type { BegunSession } from "../../service/operators/console-sessions.ts";
import { isOwnOrigin } from "../http/own-origin.ts";
import type { PageAnswer } from "../http/response.ts";
import { filePage } from "../pages/file-page.ts";
import { ownPageHeaders } from "../pages/own-page.ts";
import type { Page, PagesByPath } from "../pages/pages.ts";
import { timeOf } from "../../system.ts";
import { cookie, provesPage, sessionOf, type ConsoleOptions, type Headers } from "./console-cookie.ts";

const guards = { ...ownPageHeaders, "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin" };

const tokenShape = v.strictObject({ token: v.pipe(v.string(), v.maxLength(100)) });

export function createConsole(options: ConsoleOptions): PagesByPath {
  return new Map<string, Page>([
    ["/console", file("text/html", "src/console/index.html")],
    ["/console/", withoutSlash],
    ["/console/console.js", file("text/javascript", "gen/console/console.js")],
    ["/console/console.css", file("text/css", "gen/console/console.css")],
    ["/console/icon.svg", file("image/svg+xml", "src/console/icon.svg")],
    ["/console/session", sessionPage(options)],
    ["/console/session/end", endPage(options, ({ sessions }, token) => sessions.end(token))],
    ["/console/session/end-all", endPage(options, ({ sessions }, _, { user }) => sessions.endAll(user))],
  ]);
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

// ---- origins --------------------------------------------------------------------------------------------------------

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
  return filePage({ type: `${type}; charset=utf-8`, body: readOwnFile(path), headers: fileHeaders });
}

/** Kept by browsers, who ask each time whether they have the latest: a start may bring another version. */
const fileHeaders = { ...guards, "cache-control": "no-cache" };

/** For who types a slash at its end. Browsers take what is behind the # along, so that a link works with it too. */
const withoutSlash: Page = {
  methods: ["GET", "HEAD"],
  answer: async () => ok({ status: 308, type: "text/plain", body: "", headers: { ...guards, location: "/console" } }),
};
