/**
 * PostgreSQL's failures at length: ten outages of each kind, the silent ones of 10 s; and 10,000 guesses at once over four
 * instances whose clocks are up to an hour off.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guessAtAll, sendToAll, startCluster } from "../postgres/cluster.ts";
import { playOutages, startProxiedCluster, type Outage } from "../postgres/outage-rounds.ts";
import { startPostgres, type PostgresServer } from "../support/databases/postgres.ts";
import { tally } from "../support/clients/volley.ts";
import { temporaryFolder } from "../support/service/world.ts";

const folder = temporaryFolder();
let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const rounds = 10;
const outages: { kind: Outage; awayMs: number }[] = [
  { kind: "crash", awayMs: 1_000 },
  { kind: "cut", awayMs: 0 },
  { kind: "silence", awayMs: 10_000 },
];

test.each(outages)("ten outages ($kind) under load lose nothing, and are over within 2 s", async ({ kind, awayMs }) => {
  const cluster = await startProxiedCluster(server, folder);
  const played = await playOutages(cluster, { kind, rounds, awayMs, seed: 20_261_122 });
  console.log(`${kind}: ${JSON.stringify(played)}`);
  expect(played.unavailable).toBeGreaterThan(50);
  // Here alone: beside other tests on two cores a second is nothing.
  expect(played.longestToSuccessMs).toBeLessThan(2_000);
  await cluster.stop();
});

test("of 10,000 guesses at once exactly 5 a verification are evaluated; limits and cap are exact", async () => {
  const dailyCap = 997;
  const env = { OTP_PHONE_LIMITS: "100@1m", OTP_DAILY_MESSAGE_CAP: `${dailyCap}` };
  const cluster = await startCluster(folder, await server.createDatabase(), env);
  console.log(tally(await guessAtAll(cluster, 20, 500)));
  expect(await sendToAll(cluster, { onePhone: 1_000, limit: 100, manyPhones: 2_000, dailyCap })).toBe(dailyCap);
  await cluster.stop();
});
