/** kill −9 under load, as often as a test run has time for; the soak does it ten times as often. See rounds.ts. */
import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/service/world.ts";
import { runRounds } from "./rounds.ts";

test("twenty kills under load lose no acknowledged call, and repeat none", { timeout: 600_000 }, async () => {
  const folder = temporaryFolder();
  const tally = await runRounds(folder, 20, 20_260_101);
  console.log(`kill -9: ${JSON.stringify(tally)}`);
  // There was something to lose: calls were answered, and calls, messages and answers were cut short.
  expect(tally.acknowledged).toBeGreaterThan(600);
  expect(tally.unanswered).toBeGreaterThan(100);
  expect(tally.redelivered).toBeGreaterThan(10);
  expect(tally.successes).toBeGreaterThan(100);
  rmSync(folder, { recursive: true });
});
