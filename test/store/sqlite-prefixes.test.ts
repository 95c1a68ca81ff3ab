/** What a SQLite store tells of decisions about prefixes: each once, when it is durable, and none that was taken back. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newPrefix, type PrefixDecision } from "../../src/otp/pumping-guard.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import type { PrefixNews } from "../../src/store/store.ts";
import { createManualSystem, testEpochMs } from "../support/system.ts";
import { temporaryFolder } from "../support/world.ts";

const name = { tenant: "default", prefix: "+3161234" };
const decision: PrefixDecision = {
  kind: "unblocked",
  atMs: testEpochMs,
  matured: 0,
  verified: 0,
  refused: 2,
  untilMs: null,
  enforced: true,
};

test("a decision is told once, after its commit; one whose act failed is never told", async () => {
  const folder = temporaryFolder();
  const told: PrefixNews[] = [];
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const store = await openSqlite({ path, system, exclusive: false, onPrefix: (news) => void told.push(news) });
  const change = (...decisions: PrefixDecision[]) => store.changePrefix(name, () => ({ record: newPrefix, decisions }));
  // The second is written after the first, and no database takes a moment that is no number.
  await expect(change(decision, { ...decision, atMs: Number.NaN })).rejects.toThrow("NOT NULL");
  await store.ping();
  expect(told).toEqual([]);
  expect(await store.readPrefix(name)).toBeUndefined();
  await change(decision);
  await store.ping();
  expect(told).toEqual([{ ...name, decision }]);
  await store.close();
  rmSync(folder, { recursive: true });
});
