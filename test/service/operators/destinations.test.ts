/**
 * Which entries of the lists are whole numbers, which the audit and most operators are not told.
 */
import { expect, test } from "vitest";
import { isWholeNumber } from "../../../src/service/operators/destinations.ts";

test.each([
  ["+31", false],
  ["+3161234", false],
  ["+1415555", false],
  ["+4915123", false],
  ["+491512345", false],
  ["+9198765", false],
  ["+31612345678", true],
  ["+3161234567", true],
  ["+31612345", true],
  ["+14155552671", true],
  // A landline of few digits, and a mobile of a country that has few.
  ["+49301234", true],
  ["+29022345", true],
  // Of no plan: it may be one of a range that is newer.
  ["+31999999999", true],
  ["+99912345678", true],
])("%s is a whole number: %j", (prefix, isWhole) => {
  expect(isWholeNumber(prefix)).toBe(isWhole);
});
