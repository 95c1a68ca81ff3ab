/**
 * Caps and named limits over four instances on one database, each of a tenant of its own, also where an instance is killed:
 * what there is goes out once, through all of them together.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test, vi } from "vitest";
import { tally } from "../support/clients/volley.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { select } from "../support/databases/rows.ts";
import { extent } from "../support/extent.ts";
import { runHere } from "../support/service/command-line.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { startCluster, type Cluster } from "./cluster.ts";

const many = extent(250, 1_000);
let phones = 0;
/** Of a hundred prefixes: the lock of one that they share would have the instances wait for each other. */
const nextPhone = () => `+31612${String(((phones += 1) * 7_919) % 1_000_000).padStart(6, "0")}`;

const folder = temporaryFolder();
let url: string;
let cluster: Cluster;
beforeAll(async () => {
  const made = await newDatabase();
  if (made === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  url = made;
  // 7.3 cents a message.
  const prices = join(folder, "prices.json");
  writeFileSync(prices, JSON.stringify({ currency: "EUR", prices: [{ country: "*", per_segment: "0.0730" }] }));
  cluster = await startCluster(folder, url, { OTP_PRICES_FILE: prices, OTP_VOICE_DAILY_CAP: "137" });
  vi.stubEnv("OTP_DATABASE_URL", url);
  vi.stubEnv("OTP_PRICES_FILE", prices);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function otpd(...args: string[]): Promise<string> {
  const { code, output, errors } = await runHere(args);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  return output;
}

/** A key of a new tenant that has these settings. */
async function keyOf(tenant: string, ...settings: string[]): Promise<string> {
  await otpd("tenants", "create", tenant, ...settings);
  const made = JSON.parse(await otpd("keys", "create", "--tenant", tenant, "--json")) as { key: string };
  return made.key;
}

const sendOf = (more: object = {}) => ({ rpc: "SendOtp" as const, message: { phone: nextPhone(), ...more } });
const fire = (key: string, count: number, more: object = {}) =>
  cluster.fire(
    Array.from({ length: count }, () => sendOf(more)),
    key,
  );

/** What counts as used of a tenant's cap, without what instances have in their hands. */
async function usedOf(tenant: string, kind: string): Promise<number> {
  const sql = `SELECT (SELECT coalesce(sum(count), 0) FROM counters WHERE tenant = $1 AND kind = $2)
    - (SELECT coalesce(sum(units), 0) FROM counter_lots WHERE tenant = $1 AND kind = $2) AS n`;
  const [row] = await select({ kind: "postgres", url }, sql, [tenant, kind]);
  return Number(row?.["n"]);
}

const atOnce = 90;
/** Sends by these instances in turn, so many at once, and tells how often each outcome came. */
async function sendBy(instances: readonly number[], key: string, count: number): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  for (let sent = 0; sent < count; sent += atOnce) {
    const some = Array.from({ length: Math.min(atOnce, count - sent) }, (_, i) =>
      cluster.call(instances[i % instances.length] ?? 0, "SendOtp", { phone: nextPhone() }, key),
    );
    for (const { value, reason } of await Promise.all(some)) {
      const outcome = value === undefined ? `${reason}` : "OK";
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
  }
  return outcomes;
}

test(`of ${many} sends at once the day's cap of 137 go out through four processes`, async () => {
  const key = await keyOf("messages", "--daily-cap", "137");
  expect(tally(await fire(key, many))).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(await usedOf("messages", "messages")).toBe(137);
});

test(`of ${many} sends at once a country's cap of 137 go out through four processes`, async () => {
  const key = await keyOf("country", "--country-cap", "NL=137");
  expect(tally(await fire(key, many))).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(await usedOf("country", "country:NL")).toBe(137);
});

test(`of ${many} sends at once those go out through four processes that a cap on money pays for`, async () => {
  const key = await keyOf("money", "--daily-spend-cap", "10.05");
  expect(tally(await fire(key, many))).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(await usedOf("money", "spend")).toBe(137 * 73_000);
});

test(`of ${many} calls asked for at once a cap of 137 are made through four processes, and texts go on`, async () => {
  const key = await keyOf("calls");
  expect(tally(await fire(key, many, { channel: "voice" }))).toEqual({ OK: 137, SPEND_LIMIT: many - 137 });
  expect(await usedOf("calls", "calls")).toBe(137);
  expect(tally(await fire(key, 8))).toEqual({ OK: 8 });
});

test("of 400 sends at once for one user the limit's 5 go out through four processes, and of each of two others too", async () => {
  const key = await keyOf("limits", "--limit", "user=5@1h", "--limit", "net=12@1h");
  // Given in either order: whoever locks them has one order.
  const shots = Array.from({ length: 400 }, (_, i) =>
    sendOf({ limit_keys: i % 2 === 0 ? { user: `${i % 4}`, net: "one" } : { net: "one", user: `${i % 4}` } }),
  );
  const hits = await cluster.fire(shots, key);
  expect(tally(hits)).toEqual({ OK: 12, LIMIT_REACHED: 388 });
  const ofUser = [0, 1, 2, 3].map((user) => hits.filter((hit, i) => i % 4 === user && hit.outcome === "OK").length);
  expect(Math.max(...ofUser)).toBeLessThanOrEqual(5);
  expect(tally(await fire(key, 100, { limit_keys: { user: "alone" } }))).toEqual({ OK: 5, LIMIT_REACHED: 95 });
});

test("what an instance had in its lot when it was killed goes out through the others, all of it and no more", async () => {
  const key = await keyOf("lots", "--daily-cap", "300");
  const { value } = await cluster.call(0, "SendOtp", { phone: nextPhone() }, key);
  const inLots = "SELECT sum(units)::int AS n FROM counter_lots WHERE tenant = 'lots'";
  expect([value?.["state"], await select(cluster.database, inLots)]).toEqual(["STATE_PENDING", [{ n: 28 }]]);
  await cluster.instances[0]?.killed();
  expect(await sendBy([1, 2, 3], key, 360)).toEqual({ OK: 299, SPEND_LIMIT: 61 });
});

test("what a killed instance had taken of a cap on money is still taken, and the rest goes out through the others", async () => {
  const key = await keyOf("spent", "--daily-spend-cap", "7.30");
  // By those that still run: the one of before is gone.
  expect(await sendBy([1, 2, 3], key, 42)).toEqual({ OK: 42 });
  await cluster.instances[1]?.killed();
  expect(await sendBy([2, 3], key, 90)).toEqual({ OK: 58, SPEND_LIMIT: 32 });
  // What was in the dead one's hand may have been sent, and is counted anew where it is sent again.
  expect(await usedOf("spent", "spend")).toBeLessThanOrEqual(7_300_000);
});
