/** What a receiver that was away for long costs everybody else: next to nothing. */
import Sqlite from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createEventWorker } from "../../src/delivery/event-worker.ts";
import { backlogMax } from "../../src/otp/operators/endpoint.ts";
import { createStore } from "../../src/store/acts.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import { LongReads } from "../../src/store/sqlite/long-reads.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ringOf } from "./acts.ts";
import { added, claimAll, endpointOf, recordedAsTaken } from "./endpoints.ts";

const system = createManualSystem();
let folder: string;
let store: Store;

beforeEach(async () => {
  folder = temporaryFolder();
  store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
  await added(store, endpointOf("we_away"), endpointOf("we_well"));
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const tickUs = 10_000;
let made = 0;

/** Puts events into an endpoint's backlog. */
function put(endpointId: string, count: number, dueMs: number): void {
  const db = new Sqlite(join(folder, "otp.db"));
  const insert = db.prepare(
    `INSERT INTO events (endpoint_id, id, tenant, type, create_ms, facts, tries, due_ms)
     VALUES (?, ?, 'default', 'verification.created', ?, '{"request_id":"x"}', 0, ?)`,
  );
  db.transaction(() => {
    for (let i = 0; i < count; i += 1) insert.run(endpointId, `evt_${(made += 1)}`, dueMs + i, dueMs + i);
  })();
  db.close();
}

test("to look for what is due costs no more for a long backlog", async () => {
  const claim = () => store.events.claimEvents({ max: 64, perEndpointMax: 4, busy: [] });
  /**
   * What 20 looks take of the processor, which neither other processes nor the disk can change, in µs: the least of five times.
   * Some systems count it by ticks, so it is no less than one of those.
   */
  const leastCost = async () => {
    const costs: number[] = [];
    for (let i = 0; i < 5; i += 1) {
      const before = process.threadCpuUsage();
      for (let looks = 0; looks < 20; looks += 1) await claim();
      const { user, system: inKernel } = process.threadCpuUsage(before);
      costs.push(user + inKernel);
    }
    return Math.max(Math.min(...costs), tickUs);
  };
  put("we_away", 1_000, 1_000);
  put("we_well", 1, 2_000_000);
  const ids = (await claim()).map(({ endpoint }) => endpoint.id);
  expect(ids.toSorted()).toEqual([...Array<string>(4).fill("we_away"), "we_well"]);
  const short = await leastCost();
  put("we_away", 2 * backlogMax, 1_000);
  // Going through them all takes twenty times as much.
  expect(await leastCost()).toBeLessThan(5 * short);
});

test("what waits is counted beside the calls, but of one endpoint alone", async () => {
  put("we_away", 10, 1_000);
  const db = new Sqlite(join(folder, "otp.db"));
  const longReads = new LongReads({ path: db.name });
  const beside: string[] = [];
  const read: LongReads["read"] = (statement, values) => {
    beside.push(statement.name);
    return LongReads.prototype.read.call(longReads, statement, values) as Promise<never[]>;
  };
  const parts = { db, system, lock: undefined, checkpoints: undefined };
  const other = createStore(
    new SqliteEngine({ ...parts, longReads: Object.assign(Object.create(longReads) as LongReads, { read }) }),
  );
  expect((await other.events.listEndpoints()).map(({ waiting }) => waiting)).toEqual([10, 0]);
  expect(beside).toEqual(["queues"]);
  expect((await other.events.readQueue("we_away"))?.waiting).toBe(10);
  expect(beside).toEqual(["queues"]);
  await longReads.close();
  db.close();
});

test("backlogs that grow faster than a batch are cut back whole, each in acts of its own", async () => {
  const later = system.now() + 3_600_000;
  put("we_away", backlogMax + 4_500, later);
  put("we_well", backlogMax + 10, later);
  let dropped = 0;
  const batches: number[] = [];
  const cut = Promise.withResolvers<void>();
  const trimEvents: Store["events"]["trimEvents"] = async (...asked) => {
    const trimmed = await store.events.trimEvents(...asked);
    if (batches.push(trimmed.all) === 4) cut.resolve();
    return trimmed;
  };
  const worker = createEventWorker({
    store: { events: { ...store.events, trimEvents }, now: () => store.now() },
    system,
    keys: ringOf(1),
    post: () => Promise.reject(new Error("nothing is due")),
    onDisabled: () => {},
    onTried: () => {},
    onDropped: (count) => (dropped += count),
    onFault: () => {},
  });
  worker.start();
  await cut.promise;
  await worker.stop(0);
  const queues = await store.events.listEndpoints();
  expect(queues.map(({ waiting }) => waiting)).toEqual([backlogMax, backlogMax]);
  expect([batches, dropped]).toEqual([[2_000, 2_000, 500, 10], 4_510]);
});

test("the tries of many events that end together are one commit", async () => {
  const batches: number[] = [];
  const meter = { begin: () => 0, end: ({ acts }: { acts: number }) => void batches.push(acts) };
  await store.close();
  store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true, meter });
  for (const id of ["we_away", "we_well"]) put(id, 16, 1_000);
  const jobs = await claimAll(store);
  batches.splice(0);
  await recordedAsTaken(store, jobs);
  expect(batches).toEqual([32]);
});
