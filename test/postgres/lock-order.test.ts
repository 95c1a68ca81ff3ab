/**
 * Every batch takes its locks in one order. A deadlock would not be broken here: whoever is in one runs into a limit. And what
 * the locks go by is the same in every version that may serve beside this one.
 */
import { hash } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { idempotencyClaim } from "../../src/otp/verification/idempotency.ts";
import { lengthPrefixed } from "../../src/otp/keys/key-ring.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { ann, createActs, ringOf, testPolicy, type Acts } from "../store/acts.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

const phones = Array.from({ length: 5 }, (_, i) => `+3161234567${i}` as E164);

/** How many wait for this holder alone: the server is not. */
const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))";

/** And how many for those. */
const waitingBehind = `SELECT count(*)::int AS n FROM pg_stat_activity AS behind JOIN pg_stat_activity AS next
  ON next.pid = ANY(pg_blocking_pids(behind.pid)) AND pg_backend_pid() = ANY(pg_blocking_pids(next.pid))`;

async function hold(holder: Client, name: Buffer): Promise<void> {
  await holder.query("SELECT pg_advisory_lock($1::bigint)", [name.readBigInt64BE(0).toString()]);
}

test("batches of two instances that lock the same phones in opposite orders do not wait for each other in a ring", async () => {
  const url = new URL((await newDatabase()) ?? "");
  url.searchParams.set("options", `${url.searchParams.get("options")} -c deadlock_timeout=60s`);
  const href = url.href.replaceAll("+", "%20");
  const system = createManualSystem();
  const stores = await Promise.all([1, 2].map(() => openOnPostgres({ url: href, system })));
  const [one, two] = stores.map((store) => createActs(store, system));
  const [, , middle] = phones;
  if (one === undefined || two === undefined || middle === undefined) throw new Error("there are two, and five");

  // Somebody holds the phone in the middle until both have come as far as that.
  const holder = new Client(href);
  await holder.connect();
  // Advisory locks are all schemas' of a database: whoever sends for this tenant elsewhere would wait for the holder, too.
  const tenants = Array.from({ length: 100 }, (_, i) => ({ tenant: `of-this-test-${i}` }));
  const lockOf = (phone: E164, of: { tenant: string }) => Buffer.from(one.refOf(phone, of).indexes[0] ?? []);
  const first = (of: { tenant: string }) =>
    phones.toSorted((a, b) => Number(lockOf(a, of).readBigInt64BE(0) - lockOf(b, of).readBigInt64BE(0)))[0];
  // Of whoever waits for the holder nobody may wait for the other: the one in the middle comes first.
  const of = tenants.find((each) => first(each) === middle);
  if (of === undefined) throw new Error("one in five has that");
  await hold(holder, lockOf(middle, of));
  const sends = [
    ...phones.map((phone) => one.send(phone, of)),
    ...phones.toReversed().map((phone) => two.send(phone, of)),
  ];
  await expect.poll(async () => (await holder.query(waiting)).rows).toEqual([{ n: 2 }]);
  await holder.end();

  expect(await Promise.all(sends)).toHaveLength(2 * phones.length);
  for (const store of stores) await store.close();
});

test("a call waits for its Idempotency-Key's lock by the unkeyed name, which is all that an earlier version knows", async () => {
  const href = (await newDatabase()) ?? "";
  const system = createManualSystem();
  const store = await openOnPostgres({ url: href, system });
  const acts = createActs(store, system);
  const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: "once" } as const;
  const holder = new Client(href);
  await holder.connect();
  await hold(holder, hash("sha256", lengthPrefixed("default", "key", "SendOtp", "once"), "buffer"));
  const sent = acts.send(ann, { claim: idempotencyClaim(acts.keys, scope, [ann]) });
  await expect.poll(async () => (await holder.query(waiting)).rows).toEqual([{ n: 1 }]);
  await holder.end();
  expect((await sent).verification.state).toBe("PENDING");
  await store.close();
});

test("a batch that uses lots of several tenants does not wait in a ring with one that takes them back", async () => {
  const url = new URL((await newDatabase()) ?? "");
  url.searchParams.set("options", `${url.searchParams.get("options")} -c deadlock_timeout=60s`);
  const href = url.href.replaceAll("+", "%20");
  const system = createManualSystem();
  const stores = await Promise.all([1, 2].map(() => openOnPostgres({ url: href, system })));
  const policy = { ...testPolicy, dailyMessagesMax: 300 };
  const [one, two] = stores.map((store) => createActs(store, system, ringOf(1), policy));
  const holder = new Client(href);
  await holder.connect();
  if (one === undefined || two === undefined) throw new Error("there are two");
  const tenants = ["a-z", "ab"];
  const [, last] = tenants;
  let prefixes = 0;
  const sends = (acts: Acts) =>
    Promise.all(
      tenants.map((tenant) => acts.trySend(`+316${(prefixes += 1)}2345678`.slice(0, 12) as E164, { tenant })),
    );

  // To this database the tenants' order is the other one, and it knows how few lots there are.
  await holder.query(
    `CREATE COLLATION shifted (provider = icu, locale = 'und-u-ka-shifted');
     ALTER TABLE counter_lots ALTER COLUMN tenant TYPE text COLLATE shifted`,
  );
  expect(await sends(one)).toEqual(["opened", "opened"]);
  // All the rest that may be in lots is in somebody's of whom nothing is heard.
  await holder.query(
    `UPDATE counters SET count = 235;
     INSERT INTO counter_lots SELECT tenant, day, kind, '', 100 FROM counters`,
  );
  await holder.query("ANALYZE counter_lots");
  // Two takes back the lots of the first tenant, and is held up at the second's before it comes to that of one.
  await holder.query("BEGIN");
  await holder.query("SELECT FROM counter_lots WHERE tenant = $1 AND holder = '' FOR UPDATE", [last]);
  const sentByTwo = sends(two);
  await expect.poll(async () => (await holder.query(waiting)).rows).toEqual([{ n: 1 }]);
  const sentByOne = sends(one);
  await expect.poll(async () => (await holder.query(waitingBehind)).rows).toEqual([{ n: 1 }]);
  await holder.query("ROLLBACK");

  expect(await Promise.all([sentByTwo, sentByOne])).toEqual([tenants.map(() => "opened"), tenants.map(() => "opened")]);
  await holder.end();
  for (const store of stores) await store.close();
});
