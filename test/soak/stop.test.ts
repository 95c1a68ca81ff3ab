/**
 * The graceful stop, 50 times.
 */
import { expect, test } from "vitest";
import { stopUnderLoad } from "../support/processes/stop-under-load.ts";

const rounds = 50;

test(`${rounds} stops under load lose no call that was sent before`, async () => {
  let answered = 0;
  let longestMs = 0;
  const later: Record<string, number> = {};
  for (let round = 1; round <= rounds; round += 1) {
    const stopped = await stopUnderLoad(100 + 10 * round, round % 2 === 0);
    expect({ round, ...stopped }).toMatchObject({ exitCode: 0, lost: [], unsettled: 0 });
    answered += stopped.answered;
    longestMs = Math.max(longestMs, stopped.tookMs);
    for (const [outcome, count] of Object.entries(stopped.laterOutcomes))
      later[outcome] = (later[outcome] ?? 0) + count;
  }
  console.log(
    `${rounds} stops: ${answered} calls answered, the longest stop took ${longestMs.toFixed(0)} ms, later calls:`,
  );
  console.log(later);
  expect(longestMs).toBeLessThan(10_000);
});
