/**
 * 100,000 spoilt requests a protocol, and 30,000 conversations of frames, other ones than those of `npm test`.
 */
import { expect, test } from "vitest";
import { fire } from "../fuzz/fire.ts";
import { fireFrames } from "../fuzz/frames.ts";
import { protocols } from "../fuzz/inputs.ts";

const inputs = 100_000;

test.each(protocols)(`${inputs} spoilt requests over %s do no harm`, async (protocol) => {
  const fired = await fire(protocol, 2, inputs);
  expect(fired.exitCode).toBe(0);
  expect(fired.smsCount).toBeGreaterThanOrEqual(fired.acknowledged);
  expect(fired.smsCount).toBeLessThanOrEqual(fired.acknowledged + fired.unknown);
});

test("30,000 conversations of HTTP/2 frames end no process and keep nobody from being served", async () => {
  const { faults, served, exitCode } = await fireFrames(2, 30_000);
  expect(faults).toEqual([]);
  expect(served).toBe(300);
  expect(exitCode).toBe(0);
});
