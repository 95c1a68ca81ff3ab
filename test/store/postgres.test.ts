/**
 * The store's contract on PostgreSQL, on one database, which is as it was new for every case.
 */
import { afterAll, beforeAll } from "vitest";
import { createStore } from "../../src/store/acts.ts";
import { clockOf } from "../../src/store/postgres/clock.ts";
import { createConnections, type Connections } from "../../src/store/postgres/connections.ts";
import { PostgresEngine } from "../../src/store/postgres/engine.ts";
import { createLongReads } from "../../src/store/postgres/long-reads.ts";
import { preparePostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import type { System } from "../../src/system.ts";
import { openOnPostgres, waitFactor } from "../support/databases/opening.ts";
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
  await preparePostgres(url, waitFactor);
  connections = createConnections({ url, connectionsMax: 16, waitFactor });
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
  const engine = new PostgresEngine({
    connections: { ...connections, close: () => Promise.resolve() },
    clock: clockOf(system),
    ownName: `instance ${openedSoFar}`,
    watchers: { chargeOf: testCharge },
    longReads: createLongReads(url, undefined, waitFactor),
  });
  return createStore(engine, { chargeOf: testCharge });
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
