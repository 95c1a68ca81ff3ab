/**
 * The store's contract on SQLite, on a file of its own for every case.
 */
import Sqlite from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { testCharge } from "./acts.ts";
import { openings, storeContract } from "./contract.ts";

storeContract("SQLite", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "otp.db");
  await makeDatabase(path);
  const system = createManualSystem();
  const opened = await openings(() => openSqlite({ path, system, exclusive: false, chargeOf: testCharge }));
  return {
    ...opened,
    alone: opened.beside,
    system,
    bucketRows: 0,
    async markNewer() {
      const db = new Sqlite(path);
      db.pragma("user_version = 999");
      db.close();
    },
    async end() {
      await opened.end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
});
