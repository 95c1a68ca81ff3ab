/**
 * The primary is lost for good and its synchronous standby takes its place, behind one address: nothing acknowledged is lost,
 * and no code verifies twice. The soak does it ten times, and with a standby that falls silent first.
 */
import { describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { onPair, playOutages } from "./outage-rounds.ts";

describe.skipIf(lacks("the failover of PostgreSQL", "PostgreSQL's pg_basebackup"))("a failover", () => {
  const startCluster = onPair();

  test("under load loses nothing that was acknowledged", async () => {
    const cluster = await startCluster();
    const tally = await playOutages(cluster, { kind: "failover", rounds: 1, awayMs: 0, seed: 20_261_122 });
    console.log(`failover: ${JSON.stringify(tally)}`);
    expect(tally.unavailable).toBeGreaterThan(5);
    expect(tally.succeeded).toBeGreaterThan(20);
  });
});
