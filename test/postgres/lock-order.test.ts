/** Every batch takes its locks in one order. A deadlock would not be broken here: whoever is in one runs into a limit. */
import { Client } from "pg";
import { expect, test } from "vitest";
import type { E164 } from "../../src/otp/phone-number.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { createActs } from "../store/acts.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

const phones = Array.from({ length: 5 }, (_, i) => `+3161234567${i}` as E164);

test("batches of two instances that lock the same phones in opposite orders do not wait for each other in a ring", async () => {
  const url = new URL((await newDatabase()) ?? "");
  url.searchParams.set("options", `${url.searchParams.get("options")} -c deadlock_timeout=60s`);
  const href = url.href.replaceAll("+", "%20");
  const system = createManualSystem();
  const stores = await Promise.all([1, 2].map(() => openPostgres({ url: href, system, clock: "system" })));
  const [one, two] = stores.map((store) => createActs(store, system));
  const [, , middle] = phones;
  if (one === undefined || two === undefined || middle === undefined) throw new Error("there are two, and five");

  // Somebody holds the phone in the middle until both have come as far as that.
  const holder = new Client(href);
  await holder.connect();
  const [index] = one.refOf(middle).indexes;
  await holder.query("SELECT pg_advisory_lock($1::bigint)", [
    Buffer.from(index ?? [])
      .readBigInt64BE(0)
      .toString(),
  ]);
  const sends = [...phones.map((phone) => one.send(phone)), ...phones.toReversed().map((phone) => two.send(phone))];
  // Of this holder alone: the server is not.
  const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))";
  await expect.poll(async () => (await holder.query(waiting)).rows).toEqual([{ n: 2 }]);
  await holder.end();

  expect(await Promise.all(sends)).toHaveLength(2 * phones.length);
  for (const store of stores) await store.close();
});
