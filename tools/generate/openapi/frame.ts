/**
 * The parts of the document that no comment of the proto tells: what HTTP adds to an RPC, the body of a refusal, and the
 * path of the public keys.
 */
import type { DescMessage } from "@bufbuild/protobuf";
import type { ReasonRow } from "./refusals.ts";
import { fieldSchema, type JsonObject } from "./schemas.ts";

export const frame = {
  info: {
    description:
      "A path that is not here is ROUTE_NOT_FOUND, 404; a method that a path does not take is METHOD_NOT_ALLOWED, 405 with `Allow`. Both have the body of every other error.",
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  },
  servers: [{ url: "/", description: "The server that this document comes from." }],
  security: [{ apiKey: [] }],
  tags: [
    { name: "otp", description: "One-time codes, from send to verify." },
    { name: "receipts", description: "What whoever checks a receipt needs." },
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
      "X-Call-Id": { description: "Names the call in the server's log.", schema: { type: "string" } },
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
export const callHeaders = header("X-Call-Id");
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

/** The body of every refusal: Connect's, with the fields of `OtpError` at its top level. */
export function errorSchema({ fields }: DescMessage, rows: readonly ReasonRow[]): JsonObject {
  const { field, attempts_remaining: attempts } = Object.fromEntries(
    fields.filter(({ fieldKind }) => fieldKind === "scalar").map((one) => [one.name, fieldSchema(one)]),
  );
  if (field === undefined || attempts === undefined) throw new Error("OtpError lacks field or attempts_remaining");
  return {
    type: "object",
    description: "Why a call was refused. Decide by `reason`, or by the status where you do not know the reason.",
    required: ["code", "message", "reason"],
    properties: {
      code: { type: "string", description: "The gRPC code.", enum: [...new Set(rows.map(({ code }) => code))] },
      message: { type: "string", description: "A sentence for people, which may change. It repeats no value." },
      reason: {
        type: "string",
        description: "Why: a value of `Reason`, without its prefix.",
        enum: rows.map(({ name }) => name),
      },
      field,
      attempts_remaining: attempts,
      retry_after_seconds: { type: "integer", minimum: 1, description: "The same as the header Retry-After." },
      details: {
        type: "array",
        description: "The same once more, for typed clients of gRPC and Connect.",
        items: {
          type: "object",
          required: ["type", "value"],
          properties: {
            type: { type: "string", description: "The name of a protobuf message." },
            value: { type: "string", description: "The message, in base64." },
            debug: { type: "object", description: "The message, for people.", additionalProperties: true },
          },
        },
      },
    },
  };
}

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
    responses: { "200": { description: "The keys.", content }, ...refused },
  };
}
