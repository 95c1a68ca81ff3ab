/**
 * Whether a report is a declared provider's own, and if not, why. Texts are compared in constant time; a signature over a timestamp is good near
 * that time alone. Nothing here throws: what cannot be read is not signed.
 */
import { createHash, createHmac, timingSafeEqual, verify } from "node:crypto";
import { errors, jwtVerify } from "jose";
import { digest } from "../../../otp/keys/key-ring.ts";
import type { Instant } from "../../../system.ts";
import { reportPath, type ForgedCause, type ReportRequest } from "../../provider.ts";
import { isFormType } from "./form.ts";
import { bytesOf, publicKeyOf } from "./public-key.ts";
import type { Signature } from "./shape.ts";

/** What a report is checked against. */
export interface Expected {
  readonly signature: Signature;
  readonly secret: string;
  /** The provider's name. */
  readonly name: string;
  readonly publicUrl: string | undefined;
}

/** How far a report's own time may be from ours, either way. */
const windowMs = 300_000;

/** Tells why a report is not genuine at `now`; undefined for one that is. */
export async function whyForged(
  expected: Expected,
  request: ReportRequest,
  now: Instant,
): Promise<ForgedCause | undefined> {
  const { signature, secret, name } = expected;
  const unless = (isGenuine: boolean) => (isGenuine ? undefined : "signature");
  switch (signature.kind) {
    case "hmac-sha1":
    case "hmac-sha256":
    case "ed25519":
      return whyUnsigned(expected, signature, request, now);
    case "jwt-hs256":
      return whyNoToken(headerOf(request, signature.header ?? "authorization"), secret, request.body, now);
    case "basic": {
      if (headerOf(request, "authorization") === undefined) return "unsigned";
      const [, given = ""] = /^basic +(\S+)$/i.exec(headerOf(request, "authorization") ?? "") ?? [];
      const wanted = signature.user === undefined ? secret : `${signature.user}:${secret}`;
      return unless(isSame(Buffer.from(given, "base64").toString("utf8"), wanted));
    }
    case "path":
    default: {
      const [path = ""] = request.target.split("?");
      return unless(isSame(path, `${reportPath(name)}/${secret}`));
    }
  }
}

type OverParts = Extract<Signature, { readonly over: readonly string[] }>;

function whyUnsigned(
  { secret, publicUrl }: Expected,
  { kind, header, prefix = "", over, timestamp }: OverParts,
  request: ReportRequest,
  now: Instant,
): ForgedCause | undefined {
  const said = headerOf(request, header);
  if (said === undefined) return "unsigned";
  if (!said.startsWith(prefix)) return "signature";
  if (timestamp !== undefined && !isNear(headerOf(request, timestamp), now)) return "timestamp";
  if (over.includes("url") && publicUrl === undefined) return "no public URL";
  const parts = over.map((part) => partOf(part, request, publicUrl, timestamp));
  if (parts.some((part) => part === undefined)) return "signature";
  const covered = Buffer.concat(parts.map((part) => Buffer.from(part ?? "")));
  const given = said.slice(prefix.length).trim();
  if (kind === "ed25519") {
    const key = publicKeyOf(secret);
    return key !== undefined && verify(null, covered, key, bytesOf(given, 64)) ? undefined : "signature";
  }
  const mac = createHmac(kind === "hmac-sha1" ? "sha1" : "sha256", secret)
    .update(covered)
    .digest();
  const brought = bytesOf(given, mac.length);
  return brought.length === mac.length && timingSafeEqual(brought, mac) ? undefined : "signature";
}

/** One part of what is signed; undefined where the request has none. */
function partOf(
  part: string,
  request: ReportRequest,
  publicUrl: string | undefined,
  timestamp: string | undefined,
): string | Uint8Array | undefined {
  switch (part) {
    case "body":
      return request.body;
    case "url":
      return publicUrl === undefined ? undefined : publicUrl + request.target;
    case "form":
      return isFormType(String(request.headers["content-type"])) ? sortedForm(request.body) : undefined;
    case "timestamp":
      return timestamp === undefined ? undefined : headerOf(request, timestamp);
    default:
      return part;
  }
}

/** A form's names and values in the order of the names, with nothing between them. */
function sortedForm(body: Uint8Array): string {
  const fields = [...new URLSearchParams(Buffer.from(body).toString("utf8"))];
  return fields
    .toSorted(([a], [b]) => (a < b ? -1 : Number(a > b)))
    .flat()
    .join("");
}

/** Seconds or milliseconds since 1970. */
function isNear(said: string | undefined, now: Instant): boolean {
  if (said === undefined || !/^\d{9,13}$/.test(said)) return false;
  const ms = Number(said) * (said.length > 11 ? 1 : 1_000);
  return Math.abs(now - ms) <= windowMs;
}

/** A JWT that is near its time and names the body by its hash, as Vonage's and MessageBird's do. */
async function whyNoToken(
  said: string | undefined,
  secret: string,
  body: Uint8Array,
  now: Instant,
): Promise<ForgedCause | undefined> {
  if (said === undefined) return "unsigned";
  try {
    const { payload } = await jwtVerify(said.replace(/^bearer +/i, ""), Buffer.from(secret, "utf8"), {
      algorithms: ["HS256"],
      clockTolerance: 5,
      currentDate: new Date(now),
    });
    const { exp, iat, payload_hash: hash } = payload;
    if (exp === undefined && (iat === undefined || Math.abs(now - iat * 1_000) > windowMs)) return "timestamp";
    const isOfBody = typeof hash === "string" && isSame(hash, createHash("sha256").update(body).digest("hex"));
    return isOfBody ? undefined : "signature";
  } catch (error) {
    return error instanceof errors.JWTExpired ? "timestamp" : "signature";
  }
}

function headerOf({ headers }: ReportRequest, name: string): string | undefined {
  const key = name.toLowerCase();
  const value = Object.hasOwn(headers, key) ? headers[key] : undefined;
  return typeof value === "string" ? value : undefined;
}

export function isSame(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}
