/**
 * Long reads on PostgreSQL: reads over many rows on a connection of their own.
 */
import { expect, inject, test } from "vitest";
import { createLongReads } from "../../src/store/postgres/long-reads.ts";
import { LongReadEnded } from "../../src/store/store.ts";
import { newDatabase } from "../support/databases/project-database.ts";

test("a long read that runs long is ended, and the next one works", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const longReads = createLongReads({ url, timeoutMs: 2_000 });
  const one = { name: "one", text: "SELECT $1::bigint AS one" };
  await expect(longReads.read(one, [1])).resolves.toEqual([{ one: 1 }]);
  const long = longReads.read({ name: "long", text: "SELECT count(*) FROM generate_series(1, 100000000000)" }, []);
  const next = longReads.read(one, [2]);
  await expect(long).rejects.toThrow(new LongReadEnded("the report took longer than 2 s and was ended"));
  await expect(next).resolves.toEqual([{ one: 2 }]);
  await longReads.close();
});

test("long reads that wait are bounded", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  // Long enough on any machine: none of them is to be ended.
  const longReads = createLongReads({ url, timeoutMs: 600_000 });
  const sleeping = { name: "sleeping", text: "SELECT pg_sleep(0.01)" };
  const all = await Promise.allSettled(Array.from({ length: 70 }, () => longReads.read(sleeping, [])));
  expect(all.filter(({ status }) => status === "rejected")).toHaveLength(5);
  await longReads.close();
});

test("long reads that wait for others longer than a connection may take to come are read all the same", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const longReads = createLongReads({ url, timeoutMs: 600_000 });
  const slow = { name: "slow", text: "SELECT 1 AS one FROM pg_sleep(1.2)" };
  const all = await Promise.all(Array.from({ length: 4 }, () => longReads.read(slow, [])));
  expect(all.flat()).toEqual([1, 1, 1, 1].map((one) => ({ one })));
  await longReads.close();
});

test("a long read is planned with its values each time, and on one core", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const longReads = createLongReads({ url, timeoutMs: 600_000 });
  const one = { name: "one", text: "SELECT $1::bigint AS one" };
  // From the sixth on, PostgreSQL would choose.
  for (let i = 0; i < 8; i += 1) await longReads.read(one, [i]);
  const plans = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name = 'one'";
  expect(await longReads.read({ name: "plans", text: plans }, [])).toEqual([{ generic_plans: 0, custom_plans: 8 }]);
  const cores = `SELECT name, setting FROM pg_settings WHERE name IN ('jit', 'max_parallel_workers_per_gather') ORDER BY name`;
  expect(await longReads.read({ name: "cores", text: cores }, [])).toEqual([
    { name: "jit", setting: "off" },
    { name: "max_parallel_workers_per_gather", setting: "0" },
  ]);
  await longReads.close();
});
