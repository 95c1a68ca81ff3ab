/**
 * The primary is lost for good and its synchronous standby takes its place, ten times; and once while the standby has been
 * silent, so that commits wait for it in vain.
 */
import { describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { codeIn } from "../support/processes/crashable.ts";
import { onPair, playOutages } from "../postgres/outage-rounds.ts";

describe.skipIf(lacks("ten failovers of PostgreSQL", "PostgreSQL's pg_basebackup"))("a failover", () => {
  const startCluster = onPair();

  test("ten times under load loses nothing that was acknowledged", async () => {
    const cluster = await startCluster();
    const tally = await playOutages(cluster, { kind: "failover", rounds: 10, awayMs: 0, seed: 20_261_122 });
    console.log(`failover: ${JSON.stringify(tally)}`);
    expect(tally.unavailable).toBeGreaterThan(50);
    expect(tally.succeeded).toBeGreaterThan(200);
  });

  test("does not make a code good again that was typed while the standby was silent", async () => {
    const cluster = await startCluster(1);
    const [instance] = cluster.instances;
    const phone = "+31612345678";
    const sent = await instance?.call("/v1/otp/send", { phone });
    await instance?.until(() => cluster.deployment.inbox.has(phone));
    const proof = {
      request_id: sent?.body["request_id"],
      code: codeIn(cluster.deployment.inbox.get(phone)?.[0] ?? ""),
    };
    await cluster.pair.holdBack();
    // The database answers reads all the while, so it is not taken for gone.
    let isOver = false;
    const read = async () => {
      while (!isOver) await instance?.call(`/v1/otp/${String(proof.request_id)}`);
    };
    const reading = read();
    const first = await instance?.call("/v1/otp/verify", proof, "one");
    const repeated = await instance?.call("/v1/otp/verify", proof, "one");
    expect([first?.status, repeated?.status]).toEqual([503, 503]);
    isOver = true;
    await reading;
    await cluster.pair.crash();
    await cluster.pair.startAgain();
    const verify = () => instance?.call("/v1/otp/verify", proof, "another");
    await expect.poll(async () => (await verify())?.status).toBe(200);
    expect((await instance?.call("/v1/otp/verify", proof))?.body["reason"]).toBe("OTP_ALREADY_VERIFIED");
  });
});
