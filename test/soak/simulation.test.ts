/**
 * The simulation at length: 10,000 seeds beyond those of `npm test`, in ten parts so that a failure is told early.
 */
import { expect, test } from "vitest";
import { simulate } from "../simulation/simulate.ts";

const part = 1_000;
const parts = Array.from({ length: 10 }, (_, i) => 1_001 + i * part);

test.each(parts)(`every invariant holds on ${part} seeds from %i on`, async (from) => {
  let verifications = 0;
  for (let seed = from; seed < from + part; seed++) verifications += (await simulate(seed)).verifications;
  expect(verifications).toBeGreaterThan(part);
});
