/**
 * How JSON is read and written, and why a message could not be decoded, in words that name the field and never its value: the value may be a code
 * (protobuf's own sentence would be "expected string, got 123456"). Asked only once decoding has failed.
 */
import { fromJson, type DescMethod, type JsonValue } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import { invalid, refuse, type Refusal } from "../otp/reason.ts";

/** Refuses what is not UTF-8. The lenient default would turn every bad byte into the same character. */
export const strictText = new TextDecoder("utf-8", { fatal: true });

/** JSON as the contract has it: snake_case, zero values written, unknown fields and bad UTF-8 refused. */
export const jsonOptions = {
  useProtoFieldName: true,
  alwaysEmitImplicit: true,
  ignoreUnknownFields: false,
  textDecoder: strictText,
};

/** Diagnoses a message that the decoder of its protocol refused. */
export function whyUndecodable(
  method: DescMethod,
  headers: IncomingHttpHeaders,
  body: Uint8Array,
  bytesMax: number,
): Refusal {
  const type = headers["content-type"] ?? "application/json";
  const isCompressed = (headers["content-encoding"] ?? headers["grpc-encoding"] ?? "identity") !== "identity";
  if (isCompressed && inflatesBeyond(type.includes("grpc") ? body.subarray(5) : body, bytesMax)) {
    return refuse("BODY_TOO_LARGE").refusal;
  }
  if (isCompressed || !type.startsWith("application/json"))
    return invalid(undefined, "The message cannot be decoded.").refusal;
  return whyJsonUndecodable(method, body);
}

function inflatesBeyond(body: Uint8Array, bytesMax: number): boolean {
  try {
    gunzipSync(body, { maxOutputLength: bytesMax });
    return false;
  } catch (error) {
    return error instanceof RangeError;
  }
}

/** The same, for a JSON message that is whole and not compressed. */
export function whyJsonUndecodable(method: DescMethod, body: Uint8Array): Refusal {
  const said = (sentence: string, field?: string) => invalid(field, sentence).refusal;
  let json: JsonValue;
  try {
    json = JSON.parse(strictText.decode(body)) as JsonValue;
  } catch {
    return said("The body is not valid JSON in UTF-8.");
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) return said("The body must be a JSON object.");
  // Field by field, so that the culprit is known without reading it out of a sentence that quotes its value.
  const seen = new Set<string>();
  for (const [key, value] of Object.entries(json)) {
    const name = nameable(key);
    const field = method.input.fields.find((known) => known.name === key || known.jsonName === key);
    if (field === undefined)
      return said(name === undefined ? "The body has an unknown field." : `There is no field ${name}.`, name);
    if (seen.has(field.name)) return said(`${field.name} is given twice.`, field.name);
    seen.add(field.name);
    try {
      fromJson(method.input, { [key]: value });
    } catch {
      return said(`${field.name} has the wrong type: it must be ${typeOf(field.fieldKind, field.scalar)}.`, field.name);
    }
  }
  // Each by itself is fine, so one of them is there twice; parsing has kept the last alone.
  return said("A field is given twice.");
}

/** A key that looks like a field's name. Anything else is not repeated. */
function nameable(key: string): string | undefined {
  return /^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(key) ? key : undefined;
}

const boolScalar = 8;

function typeOf(kind: string, scalar: number | undefined): string {
  if (kind === "map") return "an object of strings";
  return scalar === boolScalar ? "true or false" : "a string";
}
