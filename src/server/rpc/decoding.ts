/**
 * How a message is read, and how JSON is written. A message that cannot be read is refused in words that name the field
 * and never its value: the value may be a code (protobuf's own sentence would be "expected string, got 123456").
 */
import {
  create,
  fromBinary,
  fromJson,
  fromJsonString,
  ScalarType,
  type DescEnum,
  type DescField,
  type DescMessage,
  type DescMethod,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import { DurationSchema, TimestampSchema, type Timestamp } from "@bufbuild/protobuf/wkt";
import { compressionGzip } from "@connectrpc/connect-node";
import { invalid, ok, refuse, type Refusal, type Result, type StatusCode } from "../../otp/reason.ts";
import { unknownEncoding } from "./frames.ts";

/** Refuses what is not UTF-8. The lenient default would turn every bad byte into the same character. */
const strictText = new TextDecoder("utf-8", { fatal: true });

/** JSON as the contract has it: snake_case, zero values written, unknown fields and bad UTF-8 refused. */
export const jsonOptions = {
  useProtoFieldName: true,
  alwaysEmitImplicit: true,
  ignoreUnknownFields: false,
  textDecoder: strictText,
};

/** What is known of a message alone: the object that protobuf keeps for an unknown field takes a hundred times its bytes. */
const binaryOptions = { readUnknownFields: false };

/** How Connect reads and writes messages, of `messageBytesMax` at most. */
export function codecOptions(messageBytesMax: number) {
  return { acceptCompression: [compressionGzip], readMaxBytes: messageBytesMax, jsonOptions, binaryOptions };
}

/** How a message is written. */
export type Encoded = "json" | "binary";

export function encodedBy(mediaType: string): Encoded {
  return mediaType === "application/json" || mediaType.endsWith("+json") ? "json" : "binary";
}

/** Reads a message that is out of whatever it was wrapped in. INVALID_REQUEST where it cannot be read. Pure. */
export function decode(method: DescMethod, encoded: Encoded, message: Uint8Array): Result<MessageShape<DescMessage>> {
  const { input } = method;
  try {
    if (encoded === "binary") return ok(fromBinary(input, message, binaryOptions));
    const text = strictText.decode(message);
    return ok(readPlain(input, text) ?? fromJsonString(input, text, jsonOptions));
  } catch {
    return encoded === "json" ? whyUndecodable(method, message) : invalid(undefined, "The message cannot be decoded.");
  }
}

/** A field with a text in which nothing is escaped, and what comes behind it. */
const plainField = /[ \t\r\n]*"(\w+)"[ \t\r\n]*:[ \t\r\n]*"([^"\\\p{Cc}]*)"[ \t\r\n]*([,}])/uy;
/** The names in TypeScript of a message's fields that hold a text, by those that JSON may give them. */
const textFields = new WeakMap<DescMessage, ReadonlyMap<string, string>>();

/**
 * Reads JSON of the kind that most calls are: an object of texts, a field each. Undefined for all else, faults too, which is
 * for protobuf to read: it takes twice as long. Pure.
 */
function readPlain(input: DescMessage, text: string): MessageShape<DescMessage> | undefined {
  let names = textFields.get(input);
  if (names === undefined) textFields.set(input, (names = textFieldsOf(input)));
  if (!text.startsWith("{")) return undefined;
  const message = create(input) as MessageShape<DescMessage> & Record<string, unknown>;
  const given: string[] = [];
  for (plainField.lastIndex = 1; ;) {
    const [, key = "", value, next] = plainField.exec(text) ?? [];
    const name = names.get(key);
    if (name === undefined || given.includes(name)) return undefined;
    message[name] = value;
    given.push(name);
    if (next === "}") return plainField.lastIndex === text.length ? message : undefined;
  }
}

function textFieldsOf({ fields }: DescMessage): ReadonlyMap<string, string> {
  const texts = fields.filter(
    (field) => field.fieldKind === "scalar" && field.scalar === ScalarType.STRING && field.oneof === undefined,
  );
  return new Map(texts.flatMap(({ name, jsonName, localName }) => [name, jsonName].map((key) => [key, localName])));
}

// ---- answers --------------------------------------------------------------------------------------------------------

/** What an answer's message is made of: its fields by their names in TypeScript. */
export type Fields = Readonly<Record<string, unknown>>;

interface FieldWriter {
  readonly name: string;
  /** What stands before the value. */
  readonly key: string;
  readonly write: (value: unknown) => string;
  /** Undefined where nothing stands for what is not there. */
  readonly zero: string | undefined;
}

/**
 * Makes what writes answers as JSON: what protobuf writes for the message that is made of such fields, without making it. It
 * knows the kinds of fields that answers have, and throws for another.
 */
export function createJsonWriter({ fields }: DescMessage): (answer: Fields) => string {
  const writers = fields.toSorted((a, b) => a.number - b.number).map(writerOf);
  return (answer) => {
    let json = "{";
    for (const { name, key, write, zero } of writers) {
      const value = answer[name];
      const text = value === undefined ? zero : write(value);
      if (text !== undefined) json += json === "{" ? key + text : `,${key}${text}`;
    }
    return `${json}}`;
  };
}

function writerOf(field: DescField): FieldWriter {
  const names = { name: field.localName, key: `${JSON.stringify(field.name)}:` };
  if (field.fieldKind === "list" && field.listKind === "message") {
    const writeItem = createJsonWriter(field.message);
    return { ...names, write: (items) => `[${(items as readonly Fields[]).map(writeItem).join(",")}]`, zero: "[]" };
  }
  if (field.fieldKind === "enum") {
    const values = new Map<unknown, string>(field.enum.values.map(({ number, name }) => [number, `"${name}"`]));
    return { ...names, write: (value) => values.get(value) ?? "null", zero: values.get(0) };
  }
  if (field.fieldKind === "message" && field.message.typeName === "google.protobuf.Timestamp") {
    return { ...names, write: (time) => timeText(time as Timestamp), zero: undefined };
  }
  if (field.fieldKind === "scalar" && field.oneof === undefined) {
    if (field.scalar === ScalarType.STRING) return { ...names, write: JSON.stringify, zero: `""` };
    if (field.scalar === ScalarType.INT32) return { ...names, write: String, zero: "0" };
  }
  throw new Error(`nothing writes ${field.toString()} as JSON`);
}

/** A time in whole milliseconds, as protobuf writes it. */
function timeText({ seconds, nanos }: Timestamp): string {
  const text = new Date(Number(seconds) * 1000 + nanos / 1e6).toISOString();
  return nanos === 0 ? `"${text.slice(0, -5)}Z"` : `"${text}"`;
}

// ---- why a message cannot be read -----------------------------------------------------------------------------------

/** Why Connect refused a call whose message is in order; `said` is the code that it gave. */
export function unlikeProtocol(said: StatusCode | undefined): Refusal {
  return other("The call's headers are not as its protocol has them.", said);
}

/** Why Connect refused its GET, whose message is in the query. */
export function undecodableQuery(said: StatusCode | undefined): Refusal {
  if (said === "UNIMPLEMENTED") return unknownEncoding;
  if (said === "RESOURCE_EXHAUSTED") return refuse("BODY_TOO_LARGE").refusal;
  return other("The query does not hold a message of Connect's GET.", undefined);
}

function other(message: string, code: StatusCode | undefined): Refusal {
  return { ...invalid(undefined, message).refusal, ...(code === undefined ? {} : { code }) };
}

/** Why JSON cannot be read as a method's message. */
function whyUndecodable(method: DescMethod, body: Uint8Array): Result<never> {
  const said = (sentence: string, field?: string) => invalid(field, sentence);
  if (body.length === 0) return said("The body is empty: it must be a JSON object.");
  let text: string;
  let json: JsonValue;
  try {
    text = strictText.decode(body);
    json = JSON.parse(text) as JsonValue;
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
      if (hasHalfCharacter(value))
        return said(`${field.name} has half a character in it: a lone surrogate.`, field.name);
      return said(`${field.name} must be ${formOf(field)}.`, field.name);
    }
  }
  // Each by itself is fine, so one of them is there twice; parsing has kept the last alone.
  const twice = keyGivenTwice(text);
  if (twice === undefined) return said("The message cannot be decoded.");
  const { name = twice.key } = method.input.fields.find(({ jsonName }) => jsonName === twice.key) ?? {};
  return said(twice.isWithin ? `${name} has a key that is given twice.` : `${name} is given twice.`, name);
}

/** A text, or one within an object, that is not made of whole characters. */
function hasHalfCharacter(value: JsonValue): boolean {
  if (typeof value === "string") return !value.isWellFormed();
  return typeof value === "object" && value !== null && Object.entries(value).flat().some(isHalfText);
}

function isHalfText(value: unknown): boolean {
  return typeof value === "string" && !value.isWellFormed();
}

/** The field whose key valid JSON has twice, or has within it. */
function keyGivenTwice(text: string): { readonly key: string; readonly isWithin: boolean } | undefined {
  /** The keys of the objects around; undefined for a list. */
  const around: (Set<string> | undefined)[] = [];
  let field = "";
  let isKeyNext = false;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g)) {
    const keys = around.at(-1);
    if (token.startsWith('"') && isKeyNext && keys !== undefined) {
      const key = JSON.parse(token) as string;
      if (around.length === 1) field = key;
      if (keys.has(key)) return { key: field, isWithin: around.length > 1 };
      keys.add(key);
    }
    if (token === "{") around.push(new Set());
    if (token === "[") around.push(undefined);
    if (token === "}" || token === "]") around.pop();
    isKeyNext = token === "{" || (token === "," && keys !== undefined);
  }
  return undefined;
}

/** A key that looks like a field's name. Anything else is not repeated. */
function nameable(key: string): string | undefined {
  return /^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(key) ? key : undefined;
}

/** What a field takes, in words. */
function formOf(field: DescField): string {
  if (field.fieldKind === "map") return "an object of strings";
  const { enum: values, scalar, message } = field;
  const [one, many] =
    values === undefined ? plainForm(scalar, message) : [`one of ${namesOf(values)}`, namesOf(values)];
  return field.fieldKind === "list" ? `a list of ${many}` : one;
}

/** One of it, and several. */
function plainForm(scalar: ScalarType | undefined, message: DescMessage | undefined): readonly [string, string] {
  if (message?.typeName === TimestampSchema.typeName) return ["a time such as 2026-01-01T12:00:00Z", "times"];
  if (message?.typeName === DurationSchema.typeName)
    return ["a length of time in seconds such as 86400s", "lengths of time"];
  if (message !== undefined) return ["an object", "objects"];
  if (scalar === ScalarType.INT32) return ["a whole number", "whole numbers"];
  return scalar === ScalarType.BOOL ? ["true or false", "true or false"] : ["a string", "strings"];
}

function namesOf({ values }: DescEnum): string {
  return values
    .filter(({ number }) => number !== 0)
    .map(({ name }) => name)
    .join(", ");
}
