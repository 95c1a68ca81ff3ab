/**
 * Web origins: where a publishable key may be used from, and where a secret key must not be. Every refusal for where a call
 * comes from is made here.
 *
 * An origin is no secret, and no proof: a script can send any. But a browser tells the truth about the page that asks, so a
 * key that was copied does not work in other people's pages. That is all it does.
 */
import { isPublishable, type ApiKey } from "./api-key.ts";
import { ok, refuse, type Refusal, type Result } from "../reason.ts";

/** The most origins that one key may list. */
export const originsMax = 20;

/** A host name's 253 characters, with a scheme and a port around them. A longer origin is nobody's. */
export const originCharsMax = 267;

/** Scheme, host and an optional port; no path, not even a slash, as `location.origin` writes it. */
const shape = /^https?:\/\/(?:\[[0-9a-f:.]+\](?::\d+)?|[^\s/?#@\\%*[\]]+)$/i;

/** The hosts of URLs that lead nowhere but to this machine. */
export const localHosts: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** What a key may list, for whoever wrote something else. */
export const originShape =
  "a site such as https://shop.example, without a path, http://localhost:PORT, or an app's own such as capacitor://localhost";

/** Why `null` is no origin to list, though browsers send it. */
export const nullOrigin =
  "null is the origin of every page in a sandboxed frame and of every page opened from a file, whoever made it: no key may list it. Serve the page from http://localhost, or make a key for apps";

/** Where a key is made. */
export interface Setup {
  readonly isDevelopment: boolean;
}

/** Other schemes that have an origin in a browser, or none: no app's own. */
const takenSchemes: ReadonlySet<string> = new Set(["http", "https", "ws", "wss", "ftp", "file", "blob", "data"]);
/** A scheme of an app's own, whose pages have the host localhost unless the app's maker says otherwise. */
const ofShell = /^([a-z][a-z0-9+.-]{0,40}):\/\/localhost(?::\d{1,5})?$/;
/** Shells whose host an app's maker sets, Electron's custom, and browsers' extensions, whose hosts are their ids. */
const ofPackage =
  /^(capacitor|ionic|tauri|app|chrome-extension|moz-extension|safari-web-extension):\/\/[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?$/;

/**
 * Reads an origin that a key is to list: https; http on this machine (localhost and what is under it, 127.0.0.1, [::1]), and
 * in development on private networks; or an app's own, such as capacitor://localhost. Gives it as a browser sends it, in lower
 * case, in punycode and without a default port; undefined for anything else. Pure.
 */
export function parseOrigin(text: string, { isDevelopment }: Setup): string | undefined {
  if (text.length > originCharsMax) return undefined;
  const url = shape.test(text) ? URL.parse(text) : null;
  if (url === null) return parseAppOrigin(text.toLowerCase());
  const { protocol, hostname } = url;
  const isHere = localHosts.has(hostname) || underLocalhost.test(hostname);
  const fits = protocol === "https:" || isHere || (isDevelopment && isPrivate(hostname));
  return fits && url.origin.length <= originCharsMax ? url.origin : undefined;
}

function parseAppOrigin(origin: string): string | undefined {
  const [, scheme = "http"] = ofShell.exec(origin) ?? [];
  return !takenSchemes.has(scheme) || ofPackage.test(origin) ? origin : undefined;
}

const underLocalhost = /^(?:[a-z0-9-]+\.)+localhost$/;

/** Addresses of private and link-local networks and of this machine, as `URL` writes them, and names of multicast DNS. */
const privateHost =
  /^(?:(?:10|127)\.\d+|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+$|^\[f[cd][0-9a-f]{2}:[0-9a-f:.]*\]$|^\[fe[89ab][0-9a-f]:[0-9a-f:.]*\]$|^[a-z0-9-]+\.local$/;

function isPrivate(hostname: string): boolean {
  return privateHost.test(hostname);
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
    const message = origin === undefined ? fromNoPage : origin === "null" ? fromNullPage : undefined;
    return message === undefined ? refuse("ORIGIN_NOT_ALLOWED") : refuse("ORIGIN_NOT_ALLOWED", { message });
  }
  return origin === undefined || isOwn(origin, host) ? ok(undefined) : refuse("SECRET_KEY_IN_BROWSER");
}

const fromNullPage =
  "The page's origin is null, as in a sandboxed frame or a page opened from a file, which no API key may list.";
const fromNoPage = "The API key is for web pages, and this call comes from none: it has no Origin.";

/**
 * Judges the origin that a send is to name in its SMS. A publishable key may name only its own origins: otherwise a
 * page, or whoever took an app's key out of the app, could have users' browsers offer the code to another site. Pure.
 */
export function judgeWebOrigin(
  { kind, origins }: Pick<ApiKey, "kind" | "origins">,
  named: string | undefined,
): Result<undefined> {
  return named === undefined || !isPublishable(kind) || origins.includes(named)
    ? ok(undefined)
    : refuse("ORIGIN_NOT_ALLOWED", { field: "web_origin" });
}

/** Judges the same by the origins of the key's tenant; undefined for a tenant that has any. Pure. */
export function judgeWebOriginOf(origins: ReadonlySet<string> | undefined, named: string): Result<undefined> {
  if (origins === undefined || origins.has(named)) return ok(undefined);
  return refuse("ORIGIN_NOT_ALLOWED", { field: "web_origin", message: "web_origin is not one of this tenant's." });
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
  // An app's own origin has a host too, which is no server's.
  const isWeb = page?.protocol === "https:" || page?.protocol === "http:";
  return isWeb && server !== null && page.host === server.host;
}
