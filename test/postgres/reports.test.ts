/**
 * Reports on PostgreSQL: reads over many rows on a connection of their own.
 */
import { expect, inject, test } from "vitest";
import { createReports } from "../../src/store/postgres/reports.ts";
import { ReportEnded } from "../../src/store/store.ts";
import { newDatabase } from "../support/databases/project-database.ts";

test("a report that runs long is ended, and the next one works", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const reports = createReports(url, 2_000);
  const one = { name: "one", text: "SELECT $1::bigint AS one" };
  await expect(reports.read(one, [1])).resolves.toEqual([{ one: 1 }]);
  const long = reports.read({ name: "long", text: "SELECT count(*) FROM generate_series(1, 100000000000)" }, []);
  const next = reports.read(one, [2]);
  await expect(long).rejects.toThrow(new ReportEnded("the report took longer than 2 s and was ended"));
  await expect(next).resolves.toEqual([{ one: 2 }]);
  await reports.close();
});

test("reports that wait are bounded", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  // Long enough on any machine: none of them is to be ended.
  const reports = createReports(url, 600_000);
  const sleeping = { name: "sleeping", text: "SELECT pg_sleep(0.01)" };
  const all = await Promise.allSettled(Array.from({ length: 70 }, () => reports.read(sleeping, [])));
  expect(all.filter(({ status }) => status === "rejected")).toHaveLength(5);
  await reports.close();
});

test("reports that wait for others longer than a connection may take to come are read all the same", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const reports = createReports(url, 600_000);
  const slow = { name: "slow", text: "SELECT 1 AS one FROM pg_sleep(1.2)" };
  const all = await Promise.all(Array.from({ length: 4 }, () => reports.read(slow, [])));
  expect(all.flat()).toEqual([1, 1, 1, 1].map((one) => ({ one })));
  await reports.close();
});
