/** What the upkeep does at each sweep, and what once in an hour: an idle server is to take next to nothing. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { idempotencyClaim, slotsUnder } from "../../src/otp/verification/idempotency.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createUpkeep } from "../../src/store/upkeep.ts";
import type { Recurring } from "../../src/system.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, createActs, testPolicy, type Acts } from "./acts.ts";
import { asBefore, read } from "./contract-records.ts";

const minuteMs = 60_000;
let folder: string;
let store: Store;
const manual = createManualSystem();
/** Runs the upkeep's next sweep; resolves once it waits for the one after. */
let sweep: () => Promise<void>;
let onWaiting: () => void;
const system = {
  ...manual,
  after(ms: number, act: () => void): () => void {
    // Pauses within a sweep take no time.
    if (ms < 1_000) setImmediate(act);
    else {
      sweep = () => {
        const waits = new Promise<void>((resolve) => (onWaiting = resolve));
        act();
        return waits;
      };
      onWaiting();
    }
    return () => {};
  },
};

beforeEach(async () => {
  folder = temporaryFolder();
  store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

/** Resolves after the first sweep, which is a round. */
async function startUpkeep(acts: Acts): Promise<Recurring> {
  const options = { store, system, phoneOf: acts.phoneOf, slotOf: slotsUnder(acts.keys) };
  const upkeep = createUpkeep(options, testPolicy.retentionMs, (error) => {
    throw error;
  });
  const waits = new Promise<void>((resolve) => (onWaiting = resolve));
  upkeep.start();
  await waits;
  return upkeep;
}

test("codes end within seconds of their time; tables without an index on time are gone through once an hour", async () => {
  const acts = createActs(store, system);
  const { verification } = await acts.send(ann);
  const path = join(folder, "otp.db");
  const buckets = () => inDatabase(path, (db) => db.prepare(`SELECT count(*) FROM buckets`).pluck().get());
  // Of phones without a verification.
  const fullMs = system.now() + 15 * minuteMs;
  inDatabase(path, (db) =>
    db.exec(`INSERT INTO buckets (bucket, tat_ms) VALUES (x'01', ${fullMs}), (x'02', ${fullMs})`),
  );
  const upkeep = await startUpkeep(acts);
  expect(buckets()).toBe(2);

  // They are full again, and take room in vain.
  manual.advance(20 * minuteMs);
  await sweep();
  expect((await acts.read(verification)).state).toBe("EXPIRED");
  expect(buckets()).toBe(2);
  manual.advance(39 * minuteMs);
  await sweep();
  expect(buckets()).toBe(2);
  manual.advance(minuteMs);
  await sweep();
  expect(buckets()).toBe(0);
  await upkeep.stop();
});

test("what an instance of an earlier version writes beside this one gets its keyed name within the hour", async () => {
  const acts = createActs(store, system);
  const upkeep = await startUpkeep(acts);
  const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: "once" } as const;
  const claim = idempotencyClaim(acts.keys, scope, ["a"]);
  const { verification } = await acts.send(ann, { claim: asBefore(claim) });
  await store.noteAnswer(asBefore(claim).slot, verification.id, { at: 5 });
  manual.advance(59 * minuteMs);
  await sweep();
  expect(await read(store, claim)).toMatchObject({ slot: claim.slot.digest });
  manual.advance(minuteMs);
  await sweep();
  expect(await read(store, claim)).toMatchObject({ slot: claim.slot.names[0], verificationId: verification.id });
  expect(await read(store, asBefore(claim))).toBeUndefined();
  await upkeep.stop();
});
