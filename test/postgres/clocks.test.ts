/** Four instances whose clocks are up to an hour off agree on every limit and lifetime; the soak fires ten times as much. */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { newPhone } from "../support/data/phones.ts";
import { temporaryFolder } from "../support/service/world.ts";
import {
  clocksAheadMs,
  databaseNow,
  guessAtAll,
  sendThrough,
  sendToAll,
  startCluster,
  type Cluster,
} from "./cluster.ts";
import { extent } from "../support/extent.ts";

const folder = temporaryFolder();
const dailyCap = 97;
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(folder, (await newDatabase()) ?? "", {
    OTP_PHONE_LIMITS: "20@1m",
    OTP_DAILY_MESSAGE_CAP: `${dailyCap}`,
  });
});
afterAll(async () => {
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a code lives for ten minutes of the database's clock, whoever has sent it and whoever is asked", async () => {
  for (const at of clocksAheadMs.keys()) {
    const before = await databaseNow(cluster);
    const { value } = await cluster.call(at, "SendOtp", { phone: newPhone() });
    const beganMs = Date.parse(String(value?.["expire_time"])) - 600_000;
    expect(beganMs).toBeGreaterThanOrEqual(before - 5);
    expect(beganMs).toBeLessThanOrEqual((await databaseNow(cluster)) + 5);
  }
  const { id, code } = await sendThrough(cluster, 0);
  await select(cluster.database, "UPDATE verifications SET expire_ms = $1 WHERE id = $2", [
    Math.floor(await databaseNow(cluster)) - 1,
    Buffer.from(id, "base64url"),
  ]);
  for (const at of clocksAheadMs.keys()) {
    expect(await cluster.call(at, "VerifyOtp", { request_id: id, code })).toMatchObject({ reason: "OTP_EXPIRED" });
  }
});

const each = extent(40, 125);

test(`of ${8 * each} guesses at once over all instances exactly 5 a verification are evaluated`, async () => {
  expect(await guessAtAll(cluster, 8, each)).toHaveLength(8 * each);
});

test("a phone's limit and the day's cap are spent once, over all instances", async () => {
  expect(await sendToAll(cluster, { onePhone: 100, limit: 20, manyPhones: 200, dailyCap })).toBe(dailyCap);
});
