/**
 * 100,000 spoilt requests a protocol, other ones than those of `npm test`.
 */
import { expect, test } from "vitest";
import { fire } from "../fuzz/fire.ts";
import { protocols } from "../fuzz/inputs.ts";

const inputs = 100_000;

test.each(protocols)(`${inputs} spoilt requests over %s do no harm`, async (protocol) => {
  const fired = await fire(protocol, 2, inputs);
  expect(fired.exitCode).toBe(0);
  expect(fired.smsCount).toBeGreaterThanOrEqual(fired.acknowledged);
  expect(fired.smsCount).toBeLessThanOrEqual(fired.acknowledged + fired.unknown);
});
