/**
 * The pool and its transactions where something goes wrong: what is lost is known to be lost, what the database took back
 * is run again or told, and the pool is as good as before without a restart.
 */
import { afterEach, beforeEach, expect, inject, onTestFinished, test } from "vitest";
import { ClientPool, discard } from "../../src/store/postgres/pool.ts";
import { createConnections, type Connections, type Transaction } from "../../src/store/postgres/connections.ts";
import { portionMax, runSteps } from "../../src/store/postgres/steps.ts";
import { queryEach, send } from "../../src/store/statement.ts";
import { StoreUnavailable } from "../../src/store/store.ts";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { startTcpProxy, through, type TcpProxy } from "../support/network/tcp-proxy.ts";

const connectionsMax = 3;

let url: string;
let proxy: TcpProxy;
let connections: Connections;
beforeEach(async () => {
  url = (await newDatabase()) ?? "";
  await select({ kind: "postgres", url }, "CREATE TABLE notes (id int PRIMARY KEY)");
  proxy = await startTcpProxy(Number(new URL(inject("postgres") ?? "").port));
  connections = createConnections({ url: through(proxy, url), connectionsMax });
});
afterEach(async () => {
  await connections.close();
  await proxy.stop();
});

const insert = { name: "insert", text: "INSERT INTO notes VALUES ($1)" };
const one = { name: "one", text: "SELECT 1 AS one" };
const sleep = { name: "sleep", text: "SELECT pg_sleep($1)" };
const lock = { name: "lock", text: "SELECT pg_advisory_xact_lock($1::bigint)" };
const pid = { name: "pid", text: "SELECT pg_backend_pid() AS pid" };

const write = (id: number) =>
  connections.transact(async (transaction) => {
    await transaction.query(one, []);
    transaction.send(insert, [id]);
  });
const notes = async () =>
  (await select({ kind: "postgres", url }, "SELECT id FROM notes ORDER BY id")).map(({ id }) => id);

test("opens no more connections than it may, and serves everybody through them", async () => {
  await Promise.all(Array.from({ length: 12 }, () => connections.query(sleep, [0.02])));
  expect(proxy.mostConnections()).toBe(connectionsMax);
});

test("has limits on statements, on locks and on a transaction that does nothing", async () => {
  const names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
  const settings = { name: "settings", text: "SELECT current_setting(name) AS value FROM unnest($1::text[]) AS name" };
  expect(await connections.query(settings, [names])).toEqual([{ value: "5s" }, { value: "4s" }, { value: "2s" }]);
});

test("a batch of which only half arrives holds its locks for no longer than a transaction may last", async () => {
  await write(1);
  const pool = new ClientPool({ url, connectionsMax: 1 });
  const client = await pool.connect();
  onTestFinished(() => {
    discard(client);
    return pool.close();
  });
  await pool.ask(client, "BEGIN");
  // It is run, while what ends the batch (Sync) is lost: the database waits for that as long as there is a connection.
  const { connection } = client;
  connection.parse({ name: "", text: "SELECT FROM notes WHERE id = 1 FOR UPDATE", types: [] }, true);
  connection.bind({}, true);
  connection.execute({}, true);
  connection.flush();
  const free = () => connections.query({ name: "free", text: "SELECT FROM notes FOR UPDATE SKIP LOCKED" }, []);
  await expect.poll(free).toEqual([]);
  await expect.poll(free, { timeout: 60_000 }).toEqual([{}]);
});

test("has the database ask after ten seconds whether a process that says nothing is still there", async () => {
  const names = ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"];
  const settings = { name: "settings", text: "SELECT current_setting(name) AS value FROM unnest($1::text[]) AS name" };
  expect(await connections.query(settings, [names])).toEqual([{ value: "10" }, { value: "2" }, { value: "3" }]);
});

test("a statement that takes too long is StoreUnavailable, and its connection is used again", async () => {
  const [before] = await connections.query<{ pid: number }>(pid, []);
  const slow = connections.transact(async (transaction) => {
    transaction.send({ name: "limit", text: "SET LOCAL statement_timeout = 20" }, []);
    await transaction.query(sleep, [5]);
  });
  await expect(slow).rejects.toThrow(StoreUnavailable);
  expect(await connections.query(pid, [])).toEqual([before]);
});

test("what is under way when its connections are cut is StoreUnavailable, and the next gets new ones", async () => {
  const outcomes = Promise.allSettled(Array.from({ length: connectionsMax }, () => connections.query(sleep, [9])));
  await expect.poll(proxy.connections).toBe(connectionsMax);
  proxy.cut();
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { name: "StoreUnavailable" } });
  }
  await expect(write(99)).resolves.toBeUndefined();
  expect(await notes()).toContain(99);
});

test("dropped, it refuses at once whatever waits and whatever comes, until it may go on; nothing silent is used again", async () => {
  await Promise.all(Array.from({ length: connectionsMax }, () => connections.query(sleep, [0.01])));
  proxy.swallow();
  const asked = Promise.allSettled(Array.from({ length: 2 * connectionsMax }, (_, i) => write(i)));
  connections.drop();
  for (const outcome of await asked) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { name: "StoreUnavailable" } });
  }
  await expect(connections.query(one, [])).rejects.toThrow("the database does not answer");
  // The old connections stay silent for good.
  proxy.restore(() => false);
  connections.resume();
  await Promise.all(Array.from({ length: connectionsMax }, (_, i) => write(100 + i)));
  expect(await notes()).toEqual([100, 101, 102]);
});

test("the victim of a deadlock is run again, also when the lock was sent ahead of other statements", async () => {
  const quick = `-c search_path=${new URL(url).searchParams.get("options")?.split("=")[1]} -c deadlock_timeout=10`;
  const own = new URL(url);
  own.searchParams.set("options", quick);
  const both = createConnections({ url: own.href.replaceAll("+", "%20") });
  let runs = 0;
  const met = Promise.withResolvers<void>();
  const inOrder = (first: number, second: number) =>
    both.transact(async (transaction) => {
      await transaction.query(lock, [first]);
      runs += 1;
      if (runs === 2) met.resolve();
      await met.promise;
      transaction.send(lock, [second]);
      await Promise.all([transaction.query(one, []), transaction.query(one, [])]);
      return first;
    });
  expect(await Promise.all([inOrder(1, 2), inOrder(2, 1)])).toEqual([1, 2]);
  expect(runs).toBe(3);
  await both.close();
});

test("an act in steps never has thousands of statements under way, however it asks for them", async () => {
  let [begun, answered, most] = [0, 0, 0];
  const begin = () => {
    begun += 1;
    most = Math.max(most, begun - answered);
    return begun;
  };
  const counted = (transaction: Transaction): Transaction => ({
    async query<Row>(...asked: Parameters<Transaction["query"]>) {
      const place = begin();
      const rows = await transaction.query<Row>(...asked);
      // Statements are answered in their order.
      answered = Math.max(answered, place);
      return rows;
    },
    send(...asked) {
      begin();
      transaction.send(...asked);
    },
  });
  const ids = Array.from({ length: 3 * portionMax + 1 }, (_, i) => [i]);
  const rows = await connections.transact((transaction) =>
    runSteps(
      counted(transaction),
      (function* () {
        yield* send(insert, ...ids);
        for (const [id = 0] of ids) yield* send(insert, [id + ids.length]);
        return yield* queryEach({ name: "id", text: "SELECT $1::int AS id" }, ids);
      })(),
    ),
  );
  expect(rows).toEqual(ids.map(([id]) => ({ id })));
  expect(await notes()).toHaveLength(2 * ids.length);
  expect(most).toBeLessThan(2 * portionMax);
});

test("where BEGIN fails nothing is written: outside a transaction each write would be kept by itself", async () => {
  await connections.query(one, []);
  const replaced = proxy.replace("there", "BEGIN", "BEGIX");
  await expect(write(1)).rejects.toThrow(StoreUnavailable);
  await replaced;
  expect(await notes()).toEqual([]);
  await write(2);
  expect(await notes()).toEqual([2]);
});

test("a COMMIT that the database answers with ROLLBACK is no success", async () => {
  const careless = connections.transact(async (transaction) => {
    await transaction.query(one, []);
    transaction.send(insert, [1]);
    await transaction.query({ name: "fail", text: "SELECT 1 / 0" }, []).catch(() => {});
  });
  await expect(careless).rejects.toThrow("the transaction was taken back");
  expect(await notes()).toEqual([]);
});
