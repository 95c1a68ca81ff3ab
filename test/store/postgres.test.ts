/**
 * The store's contract on PostgreSQL, on a database of its own for every case.
 */
import { afterAll, beforeAll } from "vitest";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { startPostgres, type PostgresServer } from "../support/databases/postgres.ts";
import { createManualSystem } from "../support/service/system.ts";
import { testCharge } from "./acts.ts";
import { openings, storeContract } from "./contract.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

storeContract("PostgreSQL", async () => {
  const url = await server.createDatabase();
  const system = createManualSystem();
  const opened = await openings(() => openPostgres({ url, system, clock: "system", chargeOf: testCharge }));
  return {
    ...opened,
    system,
    bucketRows: 2,
    async markNewer() {
      await server.run("UPDATE schema_version SET version = 999, least = 999", url);
    },
  };
});
