/**
 * The last line of an SMS, by which a machine finds the code: for a browser `@shop.example #123456` (WICG origin-bound
 * one-time codes: nothing before the host, one space, nothing after the code), for an Android app its 11-character hash
 * (SMS Retriever). Both want to be last, so a message has one of them at most.
 */
import { originCharsMax } from "../keys/origin.ts";
import { invalid, ok, type Result } from "../reason.ts";

/** A web origin in canonical form: lower case, hosts in punycode, no default port. Such as `https://shop.example`. */
export type WebOrigin = string & { readonly brand: "WebOrigin" };

/** The hash that an Android app is recognised by: 11 characters of base64. */
export type AndroidAppHash = string & { readonly brand: "AndroidAppHash" };

const hostCharsMax = 253;
/** What a browser can reach by name. An address has no certificate that a person could judge, so it is refused. */
const hostName = /^(?=.*[a-z])(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*$/;

/** Scheme, host and an optional port; no path, not even a slash, as `location.origin` writes it. */
const originShape = /^(https?):\/\/[^\s/?#@\\%]+$/i;

/**
 * Reads `web_origin`: an https origin of a host name, or http://localhost with any port. "" is none and gives undefined.
 * Refuses all else as INVALID_REQUEST. Pure.
 */
export function parseWebOrigin(text: string): Result<WebOrigin | undefined> {
  if (text === "") return ok(undefined);
  // To read 5,000 different letters beyond ASCII takes 40 ms.
  const url = text.length <= originCharsMax && originShape.test(text) ? URL.parse(text) : null;
  const secure = url?.protocol === "https:" || url?.hostname === "localhost";
  if (url !== null && secure && url.hostname.length <= hostCharsMax && hostName.test(url.hostname)) {
    return ok(url.origin as WebOrigin);
  }
  return invalid(
    "web_origin",
    "web_origin must be an https origin such as https://shop.example, without a path, or http://localhost:<port>.",
  );
}

/** Reads `android_app_hash`. "" is none and gives undefined; refuses all else as INVALID_REQUEST. Pure. */
export function parseAndroidAppHash(text: string): Result<AndroidAppHash | undefined> {
  if (text === "") return ok(undefined);
  return /^[A-Za-z0-9+/]{11}$/.test(text)
    ? ok(text as AndroidAppHash)
    : invalid("android_app_hash", "android_app_hash must be the 11 characters of base64 that the app computed.");
}

/** What may stand in a last line: one of the two, or neither. */
export interface LastLine {
  readonly webOrigin?: WebOrigin | undefined;
  readonly appHash?: AndroidAppHash | undefined;
}

/** Appends the last line to a text that already holds the code. The port is left out: codes are bound to hosts. Pure. */
export function withLastLine(text: string, code: string, { webOrigin, appHash }: LastLine): string {
  if (webOrigin !== undefined) return `${text}\n\n@${new URL(webOrigin).hostname} #${code}`;
  if (appHash !== undefined) return `${text}\n${appHash}`;
  return text;
}
