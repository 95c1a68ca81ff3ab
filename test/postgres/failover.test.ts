/**
 * The primary is lost for good and its synchronous standby takes its place, behind one address: nothing acknowledged is lost,
 * and no code verifies twice. The soak does it ten times, and with a standby that falls silent first.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startPostgresPair, type PostgresPair } from "../support/databases/standby.ts";
import { lacks } from "../support/machine.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { playOutages, startProxiedCluster } from "./outage-rounds.ts";

describe.skipIf(lacks("the failover of PostgreSQL", "PostgreSQL's pg_basebackup"))("a failover", () => {
  const folder = temporaryFolder();
  let pair: PostgresPair;
  beforeAll(async () => {
    pair = await startPostgresPair();
  });
  afterAll(async () => {
    await pair.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("under load loses nothing that was acknowledged", async () => {
    const cluster = await startProxiedCluster(pair, folder);
    onTestFinished(() => cluster.stop());
    const tally = await playOutages(cluster, { kind: "failover", rounds: 1, awayMs: 0, seed: 20_261_122 });
    console.log(`failover: ${JSON.stringify(tally)}`);
    expect(tally.unavailable).toBeGreaterThan(5);
    expect(tally.succeeded).toBeGreaterThan(20);
  });
});
