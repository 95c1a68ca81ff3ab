/**
 * What no message to AdminService may hold, whatever it asks for: PostgreSQL takes no U+0000 in a text, and no time that
 * a timestamp of protobuf does not have.
 */
import { isMessage, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { isReflectList, isReflectMap, isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";

/** The years 1 to 9999, in seconds. */
const [secondsMin, secondsMax] = [-62_135_596_800n, 253_402_300_799n];
const nanosMax = 999_999_999;

/** The first field at fault, and what is wrong with it; undefined where there is none. Pure. */
export function findOddField(
  schema: DescMessage,
  message: MessageShape<DescMessage>,
): { readonly field: string; readonly fault: string } | undefined {
  const reflected = reflect(schema, message, false);
  for (const field of reflected.sortedFields) {
    const fault = reflected.isSet(field) ? faultOf(reflected.get(field)) : undefined;
    if (fault !== undefined) return { field: field.name, fault };
  }
  return undefined;
}

function faultOf(value: unknown): string | undefined {
  if (typeof value === "string") return value.includes("\0") ? "has U+0000 in it" : undefined;
  if (isReflectMessage(value) && isMessage(value.message, TimestampSchema)) {
    const { seconds, nanos } = value.message;
    const isTime = seconds >= secondsMin && seconds <= secondsMax && nanos >= 0 && nanos <= nanosMax;
    return isTime ? undefined : "must be a time in the years 1 to 9999";
  }
  if (isReflectList(value)) return firstFault(value);
  if (isReflectMap(value)) return firstFault([...value].flat());
  if (isReflectMessage(value)) {
    return firstFault(value.fields.filter((field) => value.isSet(field)).map((field) => value.get(field)));
  }
  return undefined;
}

function firstFault(values: Iterable<unknown>): string | undefined {
  for (const value of values) {
    const fault = faultOf(value);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
