/** Ten times the kills of an ordinary test run. No failure in 200 bounds the chance of one at 1.5 % (95 %). */
import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { runRounds } from "../crash/rounds.ts";
import { temporaryFolder } from "../support/service/world.ts";

test("two hundred kills under load lose no acknowledged call, and repeat none", async () => {
  const folder = temporaryFolder();
  const tally = await runRounds(folder, 200, 20_260_102);
  console.log(`kill -9: ${JSON.stringify(tally)}`);
  expect(tally.acknowledged).toBeGreaterThan(6_000);
  expect(tally.unanswered).toBeGreaterThan(1_000);
  expect(tally.redelivered).toBeGreaterThan(100);
  rmSync(folder, { recursive: true });
});
