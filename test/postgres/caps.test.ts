/**
 * A country's cap, one on calls and one on money over four instances on one database, also where one of them is killed.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, inject, test, vi } from "vitest";
import { tally } from "../support/clients/volley.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { select } from "../support/databases/rows.ts";
import { runHere } from "../support/service/command-line.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { startCluster, type Cluster } from "./cluster.ts";

let phones = 0;
/** Of a hundred prefixes: the lock of one that they share would have the instances wait for each other. */
const nextPhone = () => `+31612${String(((phones += 1) * 7_919) % 1_000_000).padStart(6, "0")}`;

let folder: string;
let url: string;
beforeEach(async () => {
  folder = temporaryFolder();
  const made = await newDatabase();
  if (made === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  url = made;
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** 7.3 cents a message. */
function spendEnv(cap: string): Record<string, string> {
  const prices = join(folder, "prices.json");
  writeFileSync(prices, JSON.stringify({ currency: "EUR", prices: [{ country: "*", per_segment: "0.0730" }] }));
  return { OTP_PRICES_FILE: prices, OTP_DAILY_SPEND_CAP: cap };
}

const fire = (cluster: Cluster, count: number) =>
  cluster.fire(Array.from({ length: count }, () => ({ rpc: "SendOtp" as const, message: { phone: nextPhone() } })));

async function countOf(kind: string): Promise<number> {
  const sql = "SELECT coalesce(sum(count), 0)::bigint AS n FROM counters WHERE kind = $1";
  const [row] = await select({ kind: "postgres", url }, sql, [kind]);
  return Number(row?.["n"]);
}

test("of 1,000 sends at once a country's cap of 137 go out through four processes", async () => {
  const cluster = await startCluster(folder, url);
  vi.stubEnv("OTP_DATABASE_URL", url);
  const { code, errors } = await runHere(["tenants", "set", "default", "--country-cap", "NL=137"]);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  expect(tally(await fire(cluster, 1_000))).toEqual({ OK: 137, SPEND_LIMIT: 863 });
  expect(await countOf("country:NL")).toBe(137);
  await cluster.stop();
});

test("of 1,000 sends at once those go out through four processes that a cap on money pays for", async () => {
  const cluster = await startCluster(folder, url, spendEnv("10.05"));
  expect(tally(await fire(cluster, 1_000))).toEqual({ OK: 137, SPEND_LIMIT: 863 });
  expect(await countOf("spend")).toBe(137 * 73_000);
  await cluster.stop();
});

test("of 1,000 calls asked for at once a cap of 137 are made through four processes, and texts go on", async () => {
  const cluster = await startCluster(folder, url, { OTP_VOICE_DAILY_CAP: "137" });
  const calls = await cluster.fire(
    Array.from({ length: 1_000 }, () => ({ rpc: "SendOtp", message: { phone: nextPhone(), channel: "voice" } })),
  );
  expect(tally(calls)).toEqual({ OK: 137, SPEND_LIMIT: 863 });
  expect(await countOf("calls")).toBe(137);
  expect(tally(await fire(cluster, 8))).toEqual({ OK: 8 });
  await cluster.stop();
});

test("what a killed instance had taken is still taken, and the rest goes out through the others, no more", async () => {
  const cluster = await startCluster(folder, url, spendEnv("7.30"));
  expect(tally(await fire(cluster, 40))).toEqual({ OK: 40 });
  await cluster.instances[0]?.killed();
  const answers = await Promise.all(
    Array.from({ length: 90 }, (_, i) => cluster.call(1 + (i % 3), "SendOtp", { phone: nextPhone() })),
  );
  const ok = answers.filter(({ value }) => value !== undefined).length;
  // What was in the dead one's hand may have been sent, and is counted anew where it is sent again.
  expect(await countOf("spend")).toBeLessThanOrEqual(7_300_000);
  expect([ok, answers.filter(({ reason }) => reason === "SPEND_LIMIT").length]).toEqual([60, 30]);
  await cluster.stop();
});
