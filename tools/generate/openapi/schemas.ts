/**
 * The contract's messages as JSON Schema, in the JSON that the REST paths speak: proto names, enums by name, zero values
 * written. What a comment says of a field in one of the phrases below becomes a constraint.
 */
import { ScalarType, type DescEnum, type DescField, type DescMessage } from "@bufbuild/protobuf";
import { getComments } from "@bufbuild/protoplugin";

export type Json = string | number | boolean | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

/** What the proto says of an element, as Markdown. Throws where it says nothing. */
export function commentOf(element: Parameters<typeof getComments>[0]): string {
  const comment = getComments(element).leading;
  if (comment === undefined) throw new Error(`${element.toString()} has no comment`);
  return flowed(comment);
}

/** A comment with a line for each paragraph. */
export function flowed(comment: string): string {
  const paragraphs = comment.split(/\n\s*\n/);
  return paragraphs.map((paragraph) => paragraph.trim().replace(/\s*\n\s*/g, " ")).join("\n\n");
}

export function refTo(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** An enum by its values' names, less those that are never sent. */
export function enumSchema(desc: DescEnum): JsonObject {
  const values = desc.values.filter((value) => commentOf(value) !== "Never sent.");
  const meanings = values.map((value) => `- \`${value.name}\`: ${commentOf(value)}`).join("\n");
  return { type: "string", description: `${commentOf(desc)}\n\n${meanings}`, enum: values.map(({ name }) => name) };
}

/**
 * A message. In a request what is not required may be left out, and what is not known is refused; in an answer every
 * field is there unless its comment tells when it is unset, and there may be more some day.
 */
export function messageSchema(message: DescMessage, kind: "request" | "answer"): JsonObject {
  const isRequest = kind === "request";
  const needed = message.fields.filter((field) =>
    isRequest ? isRequired(field) : !/\bUnset\b/.test(commentOf(field)),
  );
  return {
    type: "object",
    description: commentOf(message),
    required: needed.map(({ name }) => name),
    properties: Object.fromEntries(message.fields.map((field) => [field.name, fieldSchema(field)])),
    ...(isRequest ? { additionalProperties: false } : {}),
  };
}

function isRequired(field: DescField): boolean {
  return /(?:^|\. )Required\.$/.test(commentOf(field));
}

/** Throws for a kind of field that the contract has not had so far. */
export function fieldSchema(field: DescField): JsonObject {
  const description = commentOf(field);
  if (field.fieldKind === "enum") return { ...refTo(field.enum.name), description };
  if (field.fieldKind === "map" && field.mapKind === "scalar" && field.scalar === ScalarType.STRING) {
    return { type: "object", description, ...mapLimits(description) };
  }
  if (field.fieldKind === "message" && field.message.typeName === "google.protobuf.Timestamp") {
    return { type: "string", format: "date-time", description };
  }
  if (field.fieldKind === "list" && field.listKind === "message") {
    return { type: "array", description, items: refTo(field.message.name), ...entryLimit(description) };
  }
  if (field.fieldKind === "list" && field.listKind === "scalar" && field.scalar === ScalarType.STRING) {
    return { type: "array", description, items: { type: "string" }, ...entryLimit(description) };
  }
  const scalar = field.fieldKind === "scalar" ? field.scalar : undefined;
  if (scalar === ScalarType.BOOL) return { type: "boolean", description };
  if (scalar === ScalarType.INT32) return { type: "integer", format: "int32", description, ...range(description) };
  if (scalar === ScalarType.INT64) return { type: "string", format: "int64", description };
  if (scalar !== ScalarType.STRING) throw new Error(`${field.toString()}: no schema is known for such a field`);
  return { type: "string", description, ...(isRequired(field) ? { minLength: 1 } : {}), ...textLimits(description) };
}

/** "At most 16." */
function entryLimit(comment: string): JsonObject {
  const [, most] = /\bAt most (\d+)\./.exec(comment) ?? [];
  return most === undefined ? {} : { maxItems: Number(most) };
}

/** "At most 35 characters", "at most 64 visible ASCII characters", "22 characters of base64url". */
function textLimits(comment: string): JsonObject {
  const [, exactly, isUrl] = /\b(\d+) characters of base64(url)?\b/.exec(comment) ?? [];
  if (exactly !== undefined) return { pattern: `^[A-Za-z0-9${isUrl === undefined ? "+/" : "_-"}]{${exactly}}$` };
  const [, most, isAscii] = /(?<!\bof )\bat most (\d+) (visible ASCII )?characters/i.exec(comment) ?? [];
  if (most === undefined) return {};
  return { maxLength: Number(most), ...(isAscii === undefined ? {} : { pattern: "^[ -~]*$" }) };
}

/** "At most 10 entries; keys 1 to 40 and values up to 128 characters". */
function mapLimits(comment: string): JsonObject {
  const found = /at most (\d+) entries; keys (\d+) to (\d+) and values up to (\d+) characters/i.exec(comment);
  if (found === null) return { additionalProperties: { type: "string" } };
  const [maxProperties = 0, minLength = 0, maxLength = 0, valueMax = 0] = found.slice(1).map(Number);
  const additionalProperties = { type: "string", maxLength: valueMax };
  return { maxProperties, propertyNames: { type: "string", minLength, maxLength }, additionalProperties };
}

/** "… seconds from now: 0 to 600". */
function range(comment: string): JsonObject {
  const [, minimum, maximum] = /: (\d+) to (\d+)[.;]/.exec(comment) ?? [];
  return minimum === undefined ? {} : { minimum: Number(minimum), maximum: Number(maximum) };
}
