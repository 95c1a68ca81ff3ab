/** For how long a provider is left alone about a number that it has throttled. */
import { expect, test } from "vitest";
import { createPauses, recipientsMax } from "../../../src/delivery/pauses.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";

const throttled: SendOutcome = { kind: "throttled", retryAfterMs: 60_000, detail: "HTTP 429" };

test("a number is throttled once by calls to it that were under way together", () => {
  const pauses = createPauses();
  for (const now of [0, 100]) pauses.note("recipient", { ...throttled, retryAfterMs: 5_000 }, now);
  expect(pauses.leftMs("recipient", 100)).toBe(5_000);
});

test("so many numbers are remembered, and no more", () => {
  const pauses = createPauses();
  const of = (i: number) => `recipient ${i}`;
  for (let i = 0; i <= recipientsMax; i++) pauses.note(of(i), throttled, 0);
  expect([0, 1, recipientsMax].map((i) => pauses.leftMs(of(i), 0) > 0)).toEqual([false, true, true]);
});

test("where more are throttled than are remembered, a newcomer waits as if he had been as often as the one who is forgotten", () => {
  const pauses = createPauses();
  const soon: SendOutcome = { kind: "throttled", detail: "HTTP 429" };
  for (const now of [0, 10_000]) for (let i = 0; i < recipientsMax; i++) pauses.note(`recipient ${i}`, soon, now);
  pauses.note("newcomer", soon, 10_000);
  expect(pauses.leftMs("newcomer", 10_000)).toBeGreaterThanOrEqual(2_000);
});
