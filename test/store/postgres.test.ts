/**
 * The store's contract on PostgreSQL, on one database, which is as it was new for every case.
 */
import { afterAll, beforeAll } from "vitest";
import type { Connections } from "../../src/store/postgres/connections.ts";
import type { Store } from "../../src/store/store.ts";
import type { System } from "../../src/system.ts";
import { connectTo, openOnPostgres, storeOver } from "../support/databases/opening.ts";
import { renewable, startPostgres, type PostgresServer, type Renewable } from "../support/databases/postgres.ts";
import { createManualSystem } from "../support/service/system.ts";
import { testCharge } from "./acts.ts";
import { openings, storeContract } from "./contract.ts";

let server: PostgresServer;
let url: string;
let connections: Connections;
let database: Renewable;
beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  connections = await connectTo(url, 16);
  database = await renewable(url);
});
afterAll(async () => {
  await connections.close();
  await database.end();
  await server.stop();
});

let openedSoFar = 0;

/** As the service opens it, but on connections of all cases: a new one plans every statement anew, which is most of a case's time. */
function open(system: System): Store {
  openedSoFar += 1;
  const shared = { ...connections, close: () => Promise.resolve() };
  return storeOver(shared, { url, system, ownName: `instance ${openedSoFar}`, watchers: { chargeOf: testCharge } });
}

storeContract("PostgreSQL", async () => {
  const system = createManualSystem();
  const opened = await openings(() => Promise.resolve(open(system)));
  return {
    ...opened,
    alone: () => openOnPostgres({ url, system, chargeOf: testCharge }),
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
