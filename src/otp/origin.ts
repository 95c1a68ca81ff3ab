/**
 * Web origins: where a publishable key may be used from, and where a secret key must not be. Every refusal for where a call
 * comes from is made here.
 *
 * An origin is no secret, and no proof: a script can send any. But a browser tells the truth about the page that asks, so a
 * key that was copied does not work in other people's pages. That is all it does.
 */
import { isPublishable, type ApiKey } from "./api-key.ts";
import { ok, refuse, type Refusal, type Result } from "./reason.ts";

/** The most origins that one key may list. */
export const originsMax = 20;

/** A host name's 253 characters, with a scheme and a port around them. A longer origin is nobody's. */
export const originCharsMax = 267;

/** Scheme, host and an optional port; no path, not even a slash, as `location.origin` writes it. */
const shape = /^https?:\/\/(?:\[[0-9a-f:.]+\](?::\d+)?|[^\s/?#@\\%*[\]]+)$/i;

/** The hosts of URLs that lead nowhere but to this machine. */
export const localHosts: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * Reads an origin that a key is to list: https, or http with a port on this machine (localhost, 127.0.0.1, [::1]). Gives
 * it as a browser sends it, in lower case, in punycode and without a default port; undefined for anything else. Pure.
 */
export function parseOrigin(text: string): string | undefined {
  const url = text.length <= originCharsMax && shape.test(text) ? URL.parse(text) : null;
  if (url === null) return undefined;
  const fits = url.protocol === "https:" || (localHosts.has(url.hostname) && url.port !== "");
  return fits && url.origin.length <= originCharsMax ? url.origin : undefined;
}

/**
 * Judges where a call with this key comes from: `origin` is its Origin header, `host` the server's name as the caller
 * wrote it. A publishable key from a page it does not list, or from no page unless it is an app's, is
 * ORIGIN_NOT_ALLOWED; a secret key from a page of another host is SECRET_KEY_IN_BROWSER. Pure.
 */
export function judgeOrigin(
  key: Pick<ApiKey, "kind" | "origins" | "isApp">,
  origin: string | undefined,
  host: string | undefined,
): Result<undefined> {
  if (isPublishable(key.kind)) {
    const isFine = origin === undefined ? key.isApp : key.origins.includes(origin);
    if (isFine) return ok(undefined);
    return origin === undefined ? refuse("ORIGIN_NOT_ALLOWED", { message: fromNoPage }) : refuse("ORIGIN_NOT_ALLOWED");
  }
  return origin === undefined || isOwn(origin, host) ? ok(undefined) : refuse("SECRET_KEY_IN_BROWSER");
}

const fromNoPage = "The API key is for web pages, and this call comes from none: it has no Origin.";

/**
 * Judges the origin that a send is to name in its SMS. A publishable key may name its own alone: else a page could have its
 * users' browsers offer the code to another site, and so could whoever took an app's key out of it. Pure.
 */
export function judgeWebOrigin(
  { kind, origins }: Pick<ApiKey, "kind" | "origins">,
  named: string | undefined,
): Result<undefined> {
  return named === undefined || !isPublishable(kind) || origins.includes(named)
    ? ok(undefined)
    : refuse("ORIGIN_NOT_ALLOWED", { field: "web_origin" });
}

/** Why a browser must not send the call that it asks for: its question has no key, so any key's origin will do. */
export const originUnlisted: Refusal = refuse("ORIGIN_NOT_ALLOWED", {
  message: "No publishable API key lists this origin.",
}).refusal;

/** Whether a page of this origin was served by the very host that it calls. `null` is an origin of no host. */
function isOwn(origin: string, host: string | undefined): boolean {
  const page = URL.parse(origin);
  // Read with the page's scheme: its default port is left out of an origin, and may stand in a Host header.
  const server = page === null ? null : URL.parse(`${page.protocol}//${host}`);
  return page !== null && server !== null && page.host !== "" && page.host === server.host;
}
