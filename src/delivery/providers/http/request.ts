/**
 * The request that hands a message to a declared provider. Every value is encoded for where it stands, so that none can leave
 * its place: a segment of the path stays one segment, a field one field, a text of JSON one text.
 */
import type { OutgoingMessage, Speech } from "../../provider.ts";
import { fill, inXml, isXml, partsOf, placeholdersIn } from "./placeholders.ts";
import type { Declaration } from "./shape.ts";
import { createTokens } from "./token.ts";

export interface HttpRequest {
  readonly method: string;
  /** Holds the number, the text and maybe a secret: it goes to the provider and nowhere else. */
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** What a request is filled from besides the message. */
export interface Fillings {
  /** The secret of `auth`. */
  readonly secret: string | undefined;
  readonly originators: ReadonlyMap<string, string>;
  /** Where reports come to; without it the texts that have {report_url} are left out. */
  readonly reportUrl: string | undefined;
  /** A clock in milliseconds, for what is signed with its time. */
  readonly now: () => number;
}

type ValueOf = (placeholder: string) => string;

/** Names, in the query of what asks for speech, whose. */
export const speechParameter = "speak";

/** Makes what makes the speech of a declaration; undefined where it declares none. */
export function createSpeech(
  declaration: Declaration,
  { originators, reportUrl }: Pick<Fillings, "originators" | "reportUrl">,
) {
  const { speech, vars } = declaration;
  if (speech === undefined) return undefined;
  const { type, body } = speech;
  const fillBody = fillerOf(body);
  const ours = wellFormed(vars);
  return (message: OutgoingMessage): Speech => {
    const values = valuesOf(message, declaration, originators, reportUrl);
    const filled = fillBody((name) => ours.get(name) ?? values.get(name) ?? "");
    return type === "xml"
      ? { type: "text/xml", body: String(filled) }
      : { type: "application/json", body: JSON.stringify(filled) };
  };
}

/** Makes what makes the requests of a declaration. It gives undefined where a value may not be sent. */
export function createRequests(declaration: Declaration, { secret, originators, reportUrl, now }: Fillings) {
  const { method, auth, content, vars } = declaration;
  const [, origin = "", path = "", query = ""] = /^(https?:\/\/[^/?]+)([^?]*)(.*)$/.exec(declaration.url) ?? [];
  const [pathParts, queryParts] = [partsOf(path) ?? [], partsOf(query) ?? []];
  const base = new URL(origin);
  const stepsInPath = Math.max(2, path.split("/").length);
  const fillBody = fillerOf(reportUrl === undefined ? withoutReportUrl(declaration.body) : declaration.body);
  const own = wellFormed(vars);
  const fixed = headersOf(declaration, secret);
  const tokenOf = auth?.kind === "jwt-rs256" ? createTokens(secret ?? "", auth.claims, now) : undefined;

  return function requestOf(sms: OutgoingMessage): HttpRequest | undefined {
    const values = valuesOf(sms, declaration, originators, reportUrl);
    const valueOf = (placeholder: string) => own.get(placeholder) ?? values.get(placeholder) ?? "";
    if ([...values].some(([placeholder, value]) => isUnsendable(placeholder, value))) return undefined;
    const url = new URL(origin + fill(pathParts, valueOf, encoded) + fill(queryParts, valueOf, encoded));
    // A value of dots would be a step up the path, however it is encoded.
    if (url.origin !== base.origin || url.pathname.split("/").length !== stepsInPath) return undefined;
    if (auth?.kind === "query") url.search = withField(url.search, auth.name, secret ?? "");
    const body = fillBody(valueOf);
    const headers = tokenOf === undefined ? fixed : { ...fixed, authorization: `Bearer ${tokenOf(sms.reference)}` };
    if (content === "json") return { method, url, headers, body: JSON.stringify(body) };
    const fields = Object.entries(body as object).map(([name, value]) => [name, String(value)]);
    if (content === "form") return { method, url, headers, body: new URLSearchParams(fields).toString() };
    for (const [name = "", value = ""] of fields) url.search = withField(url.search, name, value);
    return { method, url, headers, body: undefined };
  };
}

/** With `%20` for a space: some gateways do not know a query's `+`. */
function withField(search: string, name: string, value: string): string {
  return `${search === "" ? "?" : `${search}&`}${encoded(name)}=${encoded(value)}`;
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Half a character has no encoding: U+FFFD stands for it. */
function wellFormed(values: Readonly<Record<string, string>>): Map<string, string> {
  return new Map(Object.entries(values).map(([placeholder, value]) => [placeholder, value.toWellFormed()]));
}

function headersOf({ auth, content, headers }: Declaration, secret = ""): Record<string, string> {
  const types = { json: "application/json", form: "application/x-www-form-urlencoded", query: undefined };
  const type = types[content];
  return { ...headers, ...(type === undefined ? {} : { "content-type": type }), ...authorization(auth, secret) };
}

function authorization(auth: Declaration["auth"], secret: string): Record<string, string> {
  switch (auth?.kind) {
    case "basic": {
      const pair = auth.user === undefined ? secret : `${auth.user}:${secret}`;
      return { authorization: `Basic ${Buffer.from(pair, "utf8").toString("base64")}` };
    }
    case "bearer":
      return { authorization: `Bearer ${secret}` };
    case "header":
      return { [auth.name]: `${auth.prefix ?? ""}${secret}` };
    case "query":
    case "jwt-rs256":
    case undefined:
    default:
      return {};
  }
}

function valuesOf(
  sms: OutgoingMessage,
  { from = "", locales = {} }: Declaration,
  originators: ReadonlyMap<string, string>,
  reportUrl = "",
): Map<string, string> {
  const values = {
    to: sms.to,
    to_digits: sms.to.slice(1),
    text: sms.text,
    code: sms.code,
    from: originators.get(sms.region) ?? from,
    reference: sms.reference,
    validity_seconds: `${sms.validitySeconds}`,
    locale: sms.locale,
    locale_name: nameOfLocale(sms.locale, new Map(Object.entries(locales))),
    country: sms.region,
    report_url: reportUrl,
    prompt: sms.prompt ?? "",
    speech_url: reportUrl === "" ? "" : `${reportUrl}?${speechParameter}=${sms.reference}`,
  };
  return wellFormed(values);
}

/** What a gateway calls a language: by its whole tag, else with fewer subtags, else `*`. */
function nameOfLocale(locale: string, names: ReadonlyMap<string, string>): string {
  for (let tag = locale; tag !== ""; tag = tag.slice(0, Math.max(0, tag.lastIndexOf("-")))) {
    const name = names.get(tag);
    if (name !== undefined) return name;
  }
  return names.get("*") ?? "";
}

/** A text may have several lines, and each placeholder encodes their ends; nothing else has any. */
function isUnsendable(placeholder: string, value: string): boolean {
  return (placeholder === "text" ? /[\0\r]/ : /[\0\r\n]/).test(value);
}

/** A JSON value without the fields that have {report_url}. */
function withoutReportUrl(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutReportUrl);
  if (typeof value !== "object" || value === null) return value;
  const hasIt = (inner: unknown) => typeof inner === "string" && placeholdersIn(inner).includes("report_url");
  const kept = Object.entries(value).filter(([, inner]) => !hasIt(inner));
  return Object.fromEntries(kept.map(([name, inner]) => [name, withoutReportUrl(inner)]));
}

/** What fills the texts of a JSON value. */
function fillerOf(value: unknown): (valueOf: ValueOf) => unknown {
  if (typeof value === "string") {
    const parts = partsOf(value) ?? [];
    const encode = isXml(value) ? inXml : undefined;
    return (valueOf) => fill(parts, valueOf, encode);
  }
  if (Array.isArray(value)) {
    const items = value.map(fillerOf);
    return (valueOf) => items.map((item) => item(valueOf));
  }
  if (typeof value !== "object" || value === null) return () => value;
  const entries = Object.entries(value).map(([name, inner]) => [name, fillerOf(inner)] as const);
  return (valueOf) => Object.fromEntries(entries.map(([name, inner]) => [name, inner(valueOf)]));
}
