/**
 * The store's contract on PostgreSQL, on a database of its own for every case.
 */
import { afterAll, beforeAll } from "vitest";
import { openPostgres } from "../../src/store/postgres.ts";
import type { Store } from "../../src/store/store.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { createManualSystem } from "../support/system.ts";
import { storeContract } from "./contract.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

storeContract("PostgreSQL", async () => {
  const url = await server.createDatabase();
  const system = createManualSystem();
  const stores: Store[] = [];
  const open = async () => {
    const store = await openPostgres({ url, system, clock: "system" });
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
      await server.run("UPDATE schema_version SET version = 999, least = 999", url);
    },
    end: closeAll,
  };
});
