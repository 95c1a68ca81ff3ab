/**
 * The store's contract on SQLite, on a file of its own for every case.
 */
import Sqlite from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openSqlite } from "../../src/store/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { createManualSystem } from "../support/system.ts";
import { temporaryFolder } from "../support/world.ts";
import { storeContract } from "./contract.ts";

storeContract("SQLite", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const stores: Store[] = [];
  const open = async () => {
    const store = await openSqlite({ path, system, exclusive: false });
    stores.push(store);
    return store;
  };
  const closeAll = async () => {
    for (const store of stores.splice(0)) await store.close();
  };
  return {
    store: await open(),
    system,
    beside: open,
    async reopen() {
      await closeAll();
      return open();
    },
    async markNewer() {
      const db = new Sqlite(path);
      db.pragma("user_version = 999");
      db.close();
    },
    async end() {
      await closeAll();
      rmSync(folder, { recursive: true, force: true });
    },
  };
});
