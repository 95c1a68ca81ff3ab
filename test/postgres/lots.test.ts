/**
 * Instances take lots of a tenant's day, and so do not wait for each other's sends. The cap holds all the same, and nothing of
 * it is lost with an instance; caps.test.ts shows it of processes.
 */
import { Client } from "pg";
import { expect, inject, test } from "vitest";
import { digest } from "../../src/otp/keys/key-ring.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import { StoreUnavailable, type Store } from "../../src/store/store.ts";
import { createActs, ringOf, shareOf, testPolicy, type Acts } from "../store/acts.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { select } from "../support/databases/rows.ts";
import { createManualSystem } from "../support/service/system.ts";
import { extent, sampled } from "../support/extent.ts";

const dayMs = 86_400_000;
const system = createManualSystem();

async function database(): Promise<string> {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  return url;
}

const openMany = (url: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => openOnPostgres({ url, system })));
const under = (store: Store, dailyMessagesMax: number) =>
  createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax });
let phones = 0;
/** Each of another prefix: the lock of one that they share would have the instances wait for each other. */
const nextPhone = () => `+316${10_000_000 + (((phones += 1) * 100_003) % 89_999_999)}` as E164;
const sendAny = (acts: Acts) => acts.trySend(nextPhone());
const refused = {
  outcome: { kind: "refused", cause: "recipient", detail: "no" },
  provider: "one",
  providers: 1,
} as const;

/** What counts as used, and what is in lots. */
async function counted(url: string): Promise<{ used: number; inLots: number }> {
  const [row] = await select(
    { kind: "postgres", url },
    `SELECT (SELECT coalesce(sum(count), 0) FROM counters)::int AS count,
       (SELECT coalesce(sum(units), 0) FROM counter_lots)::int AS in_lots`,
  );
  const inLots = Number(row?.["in_lots"]);
  return { used: Number(row?.["count"]) - inLots, inLots };
}

test("sends of an instance with a lot wait for nobody who counts in the row", async () => {
  const url = await database();
  const stores = await openMany(url, 1);
  const [acts] = stores.map((store) => under(store, 10_000));
  if (acts === undefined) throw new Error("there is one");
  // Advisory locks are all schemas' of a database: whoever sends for this tenant elsewhere would wait for the holder, and we for him.
  const tenant = "of-this-test";
  await acts.send(nextPhone(), { tenant });
  const holder = new Client(url);
  await holder.connect();
  const name = digest("day", tenant).readBigInt64BE(0).toString();
  await holder.query("SELECT pg_advisory_lock($1::bigint)", [name]);
  const jobs = await Promise.all(Array.from({ length: 20 }, () => acts.send(nextPhone(), { tenant })));
  // What is given back goes into the lot, without the row.
  const [job] = jobs;
  if (job === undefined) throw new Error("there are twenty");
  await stores[0]?.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { ...refused, claimed: job.message }, acts.policy),
  );
  expect((await counted(url)).used).toBe(20);
  await holder.end();
  for (const store of stores) await store.close();
});

test.each(sampled([7, 900, 137], 2))(
  "of 1,200 sends through four instances at once %i go out under that cap, each share is warned of once",
  async (cap) => {
    const url = await database();
    const stores = await openMany(url, 4);
    const acts = stores.map((store) => under(store, cap));
    const shares: unknown[] = [];
    const outcomes = await Promise.all(
      Array.from({ length: 1_200 }, async (_, i) => {
        const one = acts[i % 4] as Acts;
        for (;;) {
          try {
            const share = shareOf(await one.send(nextPhone()));
            if (share !== undefined) shares.push(share);
            return "opened";
          } catch (error) {
            // What a starved machine had no connection for in time was not done, and is asked again.
            if (!(error instanceof StoreUnavailable) || error.mayBeDone) {
              return String(error).includes("SPEND_LIMIT") ? "SPEND_LIMIT" : String(error);
            }
          }
        }
      }),
    );
    expect(outcomes.filter((each) => each === "opened")).toHaveLength(cap);
    expect(outcomes.filter((each) => each === "SPEND_LIMIT")).toHaveLength(1_200 - cap);
    expect([shares.length, new Set(shares)]).toEqual([2, new Set([80, 100])]);
    expect(await counted(url)).toEqual({ used: cap, inLots: 0 });
    for (const store of stores) await store.close();
  },
);

test("a share is warned of by the very message that reaches it, whoever has lots", async () => {
  const url = await database();
  const stores = await openMany(url, 2);
  const cap = extent(300, 1_000);
  const [one, two] = stores.map((store) => under(store, cap));
  if (one === undefined || two === undefined) throw new Error("there are two");
  const warnedAt: number[] = [];
  for (let sent = 1; sent <= cap; sent += 1) {
    const share = shareOf(await (sent % 3 === 0 ? one : two).send(nextPhone()));
    if (share !== undefined) warnedAt.push(sent);
  }
  expect(warnedAt).toEqual([(cap * 8) / 10, cap]);
  expect([await sendAny(one), await sendAny(two)]).toEqual(["SPEND_LIMIT", "SPEND_LIMIT"]);
  for (const store of stores) await store.close();
});

test.each(["its holder", "another instance"])("a lot is worth nothing under a lower cap that %s knows", async (who) => {
  const url = await database();
  const stores = await openMany(url, 2);
  const [one, two] = stores as [Store, Store];
  for (let i = 0; i < 40; i += 1) await sendAny(under(one, 1_000));
  expect((await counted(url)).inLots).toBeGreaterThan(20);
  const [first, second] = who === "its holder" ? [one, two] : [two, one];
  const lowered = under(first, 50);
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => sendAny(lowered)));
  expect(outcomes.filter((each) => each === "opened")).toHaveLength(10);
  expect(await sendAny(under(second, 50))).toBe("SPEND_LIMIT");
  // And raised again there is room, also for whoever's lot was taken back.
  expect(await sendAny(under(one, 1_000))).toBe("opened");
  expect((await counted(url)).used).toBe(51);
  for (const store of stores) await store.close();
});

test("a lot that was taken back is not used, though its holder has heard nothing of it", async () => {
  const url = await database();
  const stores = await openMany(url, 2);
  const [one, two] = stores.map((store) => under(store, 300));
  if (one === undefined || two === undefined) throw new Error("there are two");
  expect([await sendAny(one), (await counted(url)).inLots]).toEqual(["opened", 28]);
  await Promise.all(Array.from({ length: 299 }, () => two.send(nextPhone())));
  expect([await sendAny(one), await counted(url)]).toEqual(["SPEND_LIMIT", { used: 300, inLots: 0 }]);
  for (const store of stores) await store.close();
});

test("a lot is of its day alone", async () => {
  const url = await database();
  const clock = createManualSystem();
  clock.advance(dayMs - (clock.now() % dayMs) - 1);
  const store = await openOnPostgres({ url, system: clock });
  const acts = createActs(store, clock, ringOf(1), { ...testPolicy, dailyMessagesMax: 1_000 });
  const job = await acts.send(nextPhone());
  clock.advance(1);
  for (let i = 0; i < 3; i += 1) await sendAny(acts);
  await store.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { ...refused, claimed: job.message }, acts.policy),
  );
  const days = await select(
    { kind: "postgres", url },
    `SELECT (count - (SELECT sum(units) FROM counter_lots AS l WHERE l.day = c.day))::int AS used
     FROM counters AS c ORDER BY day`,
  );
  expect(days.map(({ used }) => used)).toEqual([1, 3]);
  await store.close();
});
