/**
 * JSON of calls that is an object of texts is read without protobuf's help, and as protobuf reads it: what it takes, what it
 * makes of it, and what it refuses.
 */
import { fromJsonString, toBinary, type DescMethod } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AdminService } from "../../gen/otp/admin/v1/admin_service_pb.ts";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { decode, jsonOptions } from "../../src/server/rpc/decoding.ts";

const methods: readonly DescMethod[] = OtpService.methods;

/** What protobuf makes of a text; undefined where it refuses it. */
function byProtobuf({ input }: DescMethod, text: string): Uint8Array | undefined {
  try {
    // A mark of the byte order is dropped with the encoding.
    const decoded = jsonOptions.textDecoder.decode(Buffer.from(text));
    return toBinary(input, fromJsonString(input, decoded, jsonOptions));
  } catch {
    return undefined;
  }
}

function byUs(method: DescMethod, text: string): Uint8Array | undefined {
  const read = decode(method, "json", Buffer.from(text));
  return read.ok ? toBinary(method.input, read.value) : undefined;
}

const blank = fc.constantFrom("", "", " ", "\n", "\t\r ", "\u00a0", "\f", "\ufeff");
const text = fc.oneof(
  fc.string({ unit: "grapheme" }).map((value) => JSON.stringify(value)),
  // With what JSON has to escape, and has not.
  fc
    .string({ unit: fc.constantFrom("a", "\\", '"', "\n", "\u0000", "\u007f", "\u0085", "\u2028") })
    .map((value) => `"${value}"`),
  fc.constantFrom("null", "1", "true", "[]", "{}", '"\\u0041"', '"\\ud800"'),
);

/** Objects as calls have them, well-formed or not: fields of any kind by either name, twice, unknown ones. */
function objectOf({ input: { fields } }: DescMethod): fc.Arbitrary<string> {
  const names = fields.flatMap(({ name, jsonName }) => [name, jsonName]);
  const key = fc.constantFrom(...names, "nobody", "__proto__", "toString", "$typeName", "");
  const member = fc
    .tuple(blank, key, blank, blank, text, blank)
    .map(([a, name, b, c, value, d]) => `${a}"${name}"${b}:${c}${value}${d}`);
  const separator = fc.constantFrom(",", ",", ",", ",,", "");
  return fc
    .tuple(fc.array(member, { maxLength: 4 }), separator, blank, fc.constantFrom("}", "}", "}", "", "} ", "}}", "},"))
    .map(([members, comma, before, end]) => `${before}{${members.join(comma)}${end}`);
}

test.each(methods)("a message of $name", (method) => {
  let taken = 0;
  fc.assert(
    fc.property(objectOf(method), (json) => {
      const expected = byProtobuf(method, json);
      if (expected !== undefined) taken += 1;
      expect(byUs(method, json)).toEqual(expected);
    }),
    { numRuns: 3_000 },
  );
  // Or this would show nothing.
  expect(taken).toBeGreaterThan(100);
});

test.each([
  [
    "findVerifications",
    "state",
    "STATE_NOPE",
    "state must be one of STATE_PENDING, STATE_VERIFIED, STATE_EXPIRED, STATE_LOCKED, STATE_CANCELED, STATE_FAILED.",
  ],
  ["findVerifications", "from", "2026-11-23", "from must be a time such as 2026-01-01T12:00:00Z."],
  ["findVerifications", "page_size", 1.5, "page_size must be a whole number."],
  ["findVerifications", "show_phones", "yes", "show_phones must be true or false."],
  [
    "getStats",
    "group_by",
    ["DAY"],
    "group_by must be a list of DIMENSION_TENANT, DIMENSION_COUNTRY, DIMENSION_PROVIDER, DIMENSION_CHANNEL.",
  ],
  ["createApiKey", "lifetime", "90d", "lifetime must be a length of time in seconds such as 86400s."],
  ["createApiKey", "scopes", "send", "scopes must be a list of strings."],
  ["createTenant", "settings", ["brand"], "settings must be an object of strings."],
  ["createTenant", "id", 1, "id must be a string."],
] as const)("what cannot be read at %s is told by what %s takes", (rpc, field, value, sentence) => {
  const read = decode(AdminService.method[rpc], "json", Buffer.from(JSON.stringify({ [field]: value })));
  expect(read).toMatchObject({
    ok: false,
    refusal: { field, message: sentence },
  });
});
