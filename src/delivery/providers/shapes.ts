/**
 * The shapes of the values of providers' variables, each with the sentence for a wrong one. No sentence repeats a value.
 * Other kinds of values are in config/shapes.ts.
 */
import * as v from "valibot";
import { localHosts } from "../../otp/keys/origin.ts";

/** A sender: a number in international form, or up to 11 letters, digits and spaces with a letter among them. */
export function parseOriginator(text: string): string | undefined {
  const isNumber = /^\+?[1-9]\d{2,14}$/.test(text);
  const isName = /^[A-Za-z0-9 ]{1,11}$/.test(text) && /[A-Za-z]/.test(text);
  return isNumber || isName ? text : undefined;
}

const originatorShape =
  "must be a number such as +31612345678, or up to 11 letters and digits with a letter among them";

export const originator = v.pipe(
  v.string(),
  v.check((text) => parseOriginator(text) !== undefined, originatorShape),
);

/** A URL of https, or of http on this machine, without a user. */
export const httpUrl = (sentence: string) => urlThat(isSafe, sentence);

/** An https URL without path, query or user. */
export const httpsOrigin = (sentence: string) =>
  urlThat((url) => url.protocol === "https:" && isSafe(url) && isBare(url), sentence);

const urlThat = (suits: (url: URL) => boolean, sentence: string) =>
  v.pipe(
    v.string(),
    v.check((text) => URL.canParse(text) && suits(new URL(text)), sentence),
    v.transform((text) => new URL(text)),
  );

function isSafe({ protocol, hostname, username, password }: URL): boolean {
  const isLocal = protocol === "http:" && localHosts.has(hostname);
  return (protocol === "https:" || isLocal) && username === "" && password === "";
}

function isBare({ pathname, search, hash }: URL): boolean {
  return pathname === "/" && search === "" && hash === "";
}

/** A Standard Webhooks secret: `whsec_` and 24 to 64 bytes in base64. */
export const webhookSecret = v.pipe(
  v.string(),
  v.check((text) => {
    const bytes = Buffer.from(text.replace(/^whsec_/, ""), "base64").length;
    return text.startsWith("whsec_") && bytes >= 24 && bytes <= 64;
  }, "must be whsec_ and 24 to 64 bytes in base64"),
);
