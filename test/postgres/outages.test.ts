/** The database goes away and comes back, as often as a test run has time for; the soak does it ten times. */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type PostgresServer } from "../support/databases/postgres.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { playOutages, startProxiedCluster, type ProxiedCluster, type Outage } from "./outage-rounds.ts";
import { extent } from "../support/extent.ts";

const folder = temporaryFolder();
let server: PostgresServer;
let cluster: ProxiedCluster;
beforeAll(async () => {
  server = await startPostgres();
  cluster = await startProxiedCluster(server, folder);
});
afterAll(async () => {
  await cluster.stop();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const outages: { kind: Outage; awayMs: number }[] = [
  { kind: "crash", awayMs: 300 },
  { kind: "cut", awayMs: 0 },
  { kind: "silence", awayMs: 2_000 },
];

const rounds = extent(1, 2);

test.each(outages)("outages ($kind) under load lose nothing", async ({ kind, awayMs }) => {
  const tally = await playOutages(cluster, { kind, rounds, awayMs, seed: 20_261_121 });
  console.log(`${kind}: ${JSON.stringify(tally)}`);
  expect(tally.unavailable).toBeGreaterThan(5 * rounds);
  expect(tally.succeeded).toBeGreaterThan(25 * rounds);
});

test("an instance that is stopped while the database is silent ends in order, within 10 s", async () => {
  const [instance] = cluster.instances;
  cluster.proxy.swallow();
  const startMs = performance.now();
  instance?.process.kill("SIGTERM");
  await instance?.died();
  expect(instance?.process.exitCode).toBe(0);
  expect(performance.now() - startMs).toBeLessThan(10_000);
});
