/**
 * A sweep of which one act fails: what the others ended is told of all the same, since no later sweep comes by it again.
 */
import Sqlite from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, ben, createActs } from "./acts.ts";

let folder: string;
beforeEach(() => (folder = temporaryFolder()));
afterEach(() => rmSync(folder, { recursive: true }));

test("whoever watches hears of each that was ended, and the fault is told", async () => {
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const told: string[] = [];
  const store = await openSqlite({ path, system, exclusive: true, onExpired: ({ id }) => void told.push(id) });
  const acts = createActs(store, system);
  const { verification: first } = await acts.send(ann);
  const { verification: second } = await acts.send(ben);
  system.advance(600_001);

  const db = new Sqlite(path);
  db.exec(`CREATE TRIGGER stuck BEFORE UPDATE ON verifications
    WHEN OLD.id = x'${Buffer.from(first.id, "base64url").toString("hex")}' BEGIN SELECT RAISE(ABORT, 'stuck'); END`);
  await expect(store.sweep(10, 86_400_000)).rejects.toThrow("stuck");
  expect(told).toEqual([second.id]);

  db.exec("DROP TRIGGER stuck");
  db.close();
  expect(await store.sweep(10, 86_400_000)).toMatchObject({ expired: 1 });
  expect(told).toEqual([second.id, first.id]);
  await store.close();
});
