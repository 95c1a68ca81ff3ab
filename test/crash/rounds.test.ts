/** kill −9 under load, as often as a test run has time for; the soak does it far more often. See rounds.ts. */
import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/service/world.ts";
import { runRounds } from "./rounds.ts";
import { extent } from "../support/extent.ts";

const kills = extent(5, 20);

test(`${kills} kills under load lose no acknowledged call, and repeat none`, { timeout: 600_000 }, async () => {
  const folder = temporaryFolder();
  const tally = await runRounds(folder, kills, 20_260_101);
  console.log(`kill -9: ${JSON.stringify(tally)}`);
  // There was something to lose: calls were answered, and calls, messages and answers were cut short.
  expect(tally.acknowledged).toBeGreaterThan(30 * kills);
  expect(tally.unanswered).toBeGreaterThan(5 * kills);
  expect(tally.redelivered).toBeGreaterThan(kills / 2);
  expect(tally.successes).toBeGreaterThan(5 * kills);
  rmSync(folder, { recursive: true });
});
