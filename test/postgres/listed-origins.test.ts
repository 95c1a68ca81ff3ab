/** Anybody can have origins looked up, as many as he likes: all of them together never take more than one connection. */
import { inject, expect, test } from "vitest";
import { createStore } from "../../src/store/acts.ts";
import { clockOf } from "../../src/store/postgres/clock.ts";
import { createConnections } from "../../src/store/postgres/connections.ts";
import { PostgresEngine } from "../../src/store/postgres/engine.ts";
import { preparePostgres } from "../../src/store/postgres/open.ts";
import { createLongReads } from "../../src/store/postgres/long-reads.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

test("500 origins at once are two reads, one after the other, and each hears of its own", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  await preparePostgres(url);
  const connections = createConnections({ url });
  const reads = { all: 0, underWay: 0, atOnce: 0 };
  const query: typeof connections.query = async (statement, values) => {
    reads.all += 1;
    reads.underWay += 1;
    reads.atOnce = Math.max(reads.atOnce, reads.underWay);
    return connections.query<never>(statement, values).finally(() => (reads.underWay -= 1));
  };
  const store = createStore(
    new PostgresEngine({
      connections: { ...connections, query },
      clock: clockOf(createManualSystem()),
      ownName: "one",
      longReads: createLongReads(url),
    }),
  );
  const listed = (i: number) => i % 7 === 0 && i % 2 === 0;
  const origin = (i: number) => `https://shop${i}.example`;
  for (let i = 0; i < 500; i += 1) {
    if (listed(i)) await connections.query(insert, [origin(i), 9_000]);
    else if (i % 7 === 0) await connections.query(insert, [origin(i), 4_000]);
  }
  const asked = Array.from({ length: 500 }, (_, i) => store.registry.listsOrigin(origin(i), 5_000));
  expect(await Promise.all(asked)).toEqual(Array.from({ length: 500 }, (_, i) => listed(i)));
  expect(reads).toEqual({ all: 2, underWay: 0, atOnce: 1 });
  // Each by its own time, also of the same origin.
  const times = [3_999, 4_000, 8_999, 9_000];
  const ofTimes = times.map((now) => store.registry.listsOrigin(origin(7), now));
  expect(await Promise.all(ofTimes)).toEqual([true, false, false, false]);
  await store.close();
});

const insert = {
  name: "insert",
  text: "INSERT INTO key_origins (origin, end_ms, key_id) VALUES ($1, $2, '0000000000')",
};
