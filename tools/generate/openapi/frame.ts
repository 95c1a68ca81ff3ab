/**
 * The parts of the document that no comment of the proto tells: what HTTP adds to an RPC, and the path of the
 * public keys.
 */
import { refTo, type JsonObject } from "./schemas.ts";

export const frame = {
  info: {
    description:
      "A path that is not here is ROUTE_NOT_FOUND, 404; a method that a path does not take is METHOD_NOT_ALLOWED, 405 with `Allow`. Both have the body of every other error.",
    contact: { name: "Whoever runs this server" },
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  },
  servers: [{ url: "/", description: "The server that this document comes from." }],
  security: [{ apiKey: [] }],
  tags: [
    { name: "otp", description: "One-time codes, from send to verify." },
    { name: "receipts", description: "What whoever checks a receipt needs." },
    { name: "events", description: "What is posted to a tenant's webhook endpoints." },
  ],
  components: {
    securitySchemes: {
      apiKey: { type: "http", scheme: "bearer", description: "An API key, as `otpd keys create` prints it." },
    },
    headers: {
      "Retry-After": {
        description: "How many seconds to wait before a retry.",
        required: true,
        schema: { type: "integer", minimum: 1 },
      },
      "Retry-After-If-Harmless": {
        description:
          "How many seconds to wait before a retry. Not there for a call without an Idempotency-Key that may have taken effect: do not retry that.",
        schema: { type: "integer", minimum: 1 },
      },
      "WWW-Authenticate": { description: "`Bearer`.", required: true, schema: { type: "string" } },
      "X-Call-Id": { description: "Names the call in the server's log.", required: true, schema: { type: "string" } },
      "X-Call-Id-If-Logged": {
        description: "Names the call in the server's log. Not there where no call had a place: those are only counted.",
        schema: { type: "string" },
      },
      "Cache-Control": { description: "`no-store`.", required: true, schema: { type: "string", enum: ["no-store"] } },
      "Cache-Control-Of-Keys": {
        description: "`public, max-age=300`.",
        required: true,
        schema: { type: "string", enum: ["public, max-age=300"] },
      },
      ETag: {
        description: "Names what the answer has: send it as If-None-Match.",
        required: true,
        schema: { type: "string" },
      },
      "Access-Control-Allow-Origin": {
        description:
          "The origin of the page that asks, if some publishable key lists it; `*` for what any page may read.",
        schema: { type: "string" },
      },
      "Idempotency-Replayed": {
        description: "There if an earlier call with this Idempotency-Key was answered the same.",
        schema: { type: "string", enum: ["true"] },
      },
    },
  },
};

type HeaderName = keyof typeof frame.components.headers;
const header = (component: HeaderName, name: string = component) => ({
  [name]: { $ref: `#/components/headers/${component}` },
});
export const callHeaders = {
  ...header("X-Call-Id"),
  ...header("Cache-Control"),
  ...header("Access-Control-Allow-Origin"),
};
const keyHeaders = {
  ...header("Cache-Control-Of-Keys", "Cache-Control"),
  ...header("ETag"),
  ...header("Access-Control-Allow-Origin"),
};
export const callIdIfLogged = header("X-Call-Id-If-Logged", "X-Call-Id");
export const replayed = header("Idempotency-Replayed");
export const retryAfter = header("Retry-After");
export const retryAfterIfHarmless = header("Retry-After-If-Harmless", "Retry-After");
export const challenge = header("WWW-Authenticate");

export const idempotencyKey = {
  name: "Idempotency-Key",
  in: "header",
  description: "Names this call: within 24 hours, a repeat answers the same and spends nothing.",
  schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[!-~]+$" },
};

const jwk = { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig" };

export const keySetSchema = {
  type: "object",
  description: "A JWK set (RFC 7517).",
  required: ["keys"],
  properties: {
    keys: {
      type: "array",
      items: {
        type: "object",
        required: ["kid", "x", ...Object.keys(jwk)],
        properties: {
          kid: { type: "string", description: "The `kid` in the header of a receipt that it signed." },
          x: { type: "string", description: "The public key: 32 bytes in base64url." },
          ...Object.fromEntries(Object.entries(jwk).map(([name, value]) => [name, { type: "string", enum: [value] }])),
        },
      },
    },
  },
};

export function keySetOperation(content: JsonObject, refused: JsonObject): JsonObject {
  return {
    operationId: "GetKeySet",
    tags: ["receipts"],
    summary: "The public keys that sign receipts",
    description: "For anybody, from any page. Caches may keep them for 5 minutes.",
    security: [],
    parameters: [
      { name: "If-None-Match", in: "header", description: "An ETag of before.", schema: { type: "string" } },
    ],
    responses: {
      "200": { description: "The keys.", headers: keyHeaders, content },
      "304": { description: "The keys are those of that ETag.", headers: keyHeaders },
      ...refused,
      "417": {
        description: "An `Expect` other than 100-continue.",
        headers: callHeaders,
        content: { "application/json": { schema: refTo("OtpRefusal") } },
      },
    },
  };
}
