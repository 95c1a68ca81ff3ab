/**
 * Every batch takes its locks in one order. A deadlock would not be broken here: whoever is in one runs into a limit. And what
 * the locks go by is the same in every version that may serve beside this one.
 */
import { hash } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { idempotencyClaim } from "../../src/otp/idempotency.ts";
import { lengthPrefixed } from "../../src/otp/key-ring.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { ann, createActs } from "../store/acts.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

const phones = Array.from({ length: 5 }, (_, i) => `+3161234567${i}` as E164);

/** How many wait for this holder alone: the server is not. */
const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))";

async function hold(holder: Client, name: Buffer): Promise<void> {
  await holder.query("SELECT pg_advisory_lock($1::bigint)", [name.readBigInt64BE(0).toString()]);
}

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
  await hold(holder, Buffer.from(index ?? []));
  const sends = [...phones.map((phone) => one.send(phone)), ...phones.toReversed().map((phone) => two.send(phone))];
  await expect.poll(async () => (await holder.query(waiting)).rows).toEqual([{ n: 2 }]);
  await holder.end();

  expect(await Promise.all(sends)).toHaveLength(2 * phones.length);
  for (const store of stores) await store.close();
});

test("a call waits for its Idempotency-Key's lock by the unkeyed name, which is all that an earlier version knows", async () => {
  const href = (await newDatabase()) ?? "";
  const system = createManualSystem();
  const store = await openPostgres({ url: href, system, clock: "system" });
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
