/**
 * The store's contract on PostgreSQL, on one database, which is as it was new for every case.
 */
import { afterAll, beforeAll } from "vitest";
import { openPostgres, preparePostgres } from "../../src/store/postgres/open.ts";
import { renewable, startPostgres, type PostgresServer, type Renewable } from "../support/databases/postgres.ts";
import { createManualSystem } from "../support/service/system.ts";
import { testCharge } from "./acts.ts";
import { openings, storeContract } from "./contract.ts";

let server: PostgresServer;
let url: string;
let database: Renewable;
beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  await preparePostgres(url);
  database = await renewable(url);
});
afterAll(async () => {
  await database.end();
  await server.stop();
});

storeContract("PostgreSQL", async () => {
  const system = createManualSystem();
  const opened = await openings(() => openPostgres({ url, system, clock: "system", chargeOf: testCharge }));
  return {
    ...opened,
    system,
    bucketRows: 2,
    async markNewer() {
      await server.run("UPDATE schema_version SET version = 999, least = 999", url);
    },
    async end() {
      await opened.end();
      await database.renew();
    },
  };
});
