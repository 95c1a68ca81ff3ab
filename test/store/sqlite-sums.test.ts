/**
 * Sums on SQLite, over kills: whatever statement of a slice the process was killed after, nothing is counted twice and nothing
 * is left out.
 */
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { E164 } from "../../src/otp/phone-number.ts";
import { dimensions, measures } from "../../src/otp/operators/statistics.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { createActs, testCharge } from "./acts.ts";

const program = fileURLToPath(new URL("program.ts", import.meta.url));
const dayMs = 86_400_000;

/** What is told of each hour and each day, country and the like, by what was asked for alone. */
async function told(store: Store) {
  const whole = { fromHour: 0, toHour: 10_000_000, groupBy: dimensions } as const;
  const hours = (await store.statistics.readSums({ ...whole, interval: "hour" }, 1_000)) ?? [];
  const days = (await store.statistics.readSums({ ...whole, interval: "day" }, 1_000)) ?? [];
  return [...hours, ...days].map(({ sums, costs, ...of }) => [of, measures.map((each) => sums[each] ?? 0), ...costs]);
}

test("sums are the same after kills in the middle of a slice, before its commit and between two of them", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const open = () => openSqlite({ path, system, exclusive: true, chargeOf: testCharge });
  let store = await open();
  const acts = createActs(store, system);
  for (let i = 0; i < 40; i++) {
    const phone = `+316${10_000_000 + i}` as E164;
    const { verification } = await acts.send(phone, { region: i % 2 === 0 ? "NL" : "DE" });
    system.advance(1_000);
    if (i % 3 === 0) await acts.guess(verification, acts.rightCode(verification));
    else await acts.cancel(verification);
  }
  const before = await told(store);
  expect(before.length).toBeGreaterThan(1);
  await store.close();
  for (const [statement, times] of [
    ["INSERT INTO sums", 1],
    ["UPDATE summing", 1],
    ["INSERT INTO sums", 5],
    ["UPDATE summing", 3],
  ] as const) {
    const args = [program, "sums", path, String(times), statement];
    expect(() => execFileSync(process.execPath, args, { stdio: "pipe" })).toThrow(
      expect.objectContaining({ signal: "SIGKILL" }),
    );
    store = await open();
    expect(await told(store)).toEqual(before);
    await store.close();
  }
  store = await open();
  system.advance(dayMs);
  while ((await store.sweep(4, 2 * dayMs)).more);
  expect(await told(store)).toEqual(before);
  system.advance(3 * dayMs);
  while ((await store.sweep(4, 2 * dayMs)).more);
  expect(await store.listVerifications(acts.refOf("+31610000000" as E164).indexes, 1)).toEqual([]);
  expect(await told(store)).toEqual(before);
  await store.close();
  rmSync(folder, { recursive: true });
});
