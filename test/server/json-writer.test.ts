/**
 * JSON on REST is written without protobuf's help, and is what protobuf writes: of every answer, for every field, whatever
 * is in it and whatever is left out.
 */
import {
  create,
  ScalarType,
  toJsonString,
  type DescField,
  type DescMessage,
  type DescMethod,
} from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { OtpErrorSchema, OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { createJsonWriter, jsonOptions, type Fields } from "../../src/server/rpc/decoding.ts";

/** Anything that a field may hold. */
function valueOf(field: DescField): fc.Arbitrary<unknown> {
  if (field.fieldKind === "enum") return fc.constantFrom(...field.enum.values.map(({ number }) => number));
  if (field.fieldKind === "list" && field.listKind === "message") {
    return fc.array(answerOf(field.message), { maxLength: 3 });
  }
  if (field.fieldKind === "message") {
    return fc.integer({ min: Date.UTC(1, 0, 1), max: Date.UTC(9999, 11, 31) }).map((ms) => timestampFromMs(ms));
  }
  return field.scalar === ScalarType.INT32
    ? fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
    : fc.string({ unit: "binary" });
}

/** Anything that an answer may hold, some of it left out. */
function answerOf({ fields }: DescMessage): fc.Arbitrary<Fields> {
  const values = Object.fromEntries(fields.map((field) => [field.localName, valueOf(field)]));
  return fc.record<Fields>(values, { requiredKeys: [] });
}

const methods: readonly DescMethod[] = OtpService.methods;

test.each(methods)("the answer of $name", ({ output }) => {
  const write = createJsonWriter(output);
  fc.assert(
    fc.property(answerOf(output), (answer) => {
      expect(write(answer)).toBe(toJsonString(output, create(output, answer), jsonOptions));
    }),
    { numRuns: 500 },
  );
});

test("a field of a kind that no answer has is not left out in silence", () => {
  expect(() => createJsonWriter(OtpErrorSchema)).toThrow("nothing writes");
});
