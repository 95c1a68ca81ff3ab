/** Four instances whose clocks are up to an hour off agree on every limit and lifetime; the soak fires ten times as much. */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { newPhone } from "../support/data/phones.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { clocksAheadMs, databaseNow, guessAtAll, sendThrough, sendToAll, startCrowd, type Crowd } from "./crowd.ts";

const folder = temporaryFolder();
const dailyCap = 97;
let crowd: Crowd;
beforeAll(async () => {
  crowd = await startCrowd(folder, (await newDatabase()) ?? "", {
    OTP_PHONE_LIMITS: "20@1m",
    OTP_DAILY_MESSAGE_CAP: `${dailyCap}`,
  });
});
afterAll(async () => {
  await crowd.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a code lives for ten minutes of the database's clock, whoever has sent it and whoever is asked", async () => {
  for (const at of clocksAheadMs.keys()) {
    const before = await databaseNow(crowd);
    const { value } = await crowd.call(at, "SendOtp", { phone: newPhone() });
    const beganMs = Date.parse(String(value?.["expire_time"])) - 600_000;
    expect(beganMs).toBeGreaterThanOrEqual(before - 5);
    expect(beganMs).toBeLessThanOrEqual((await databaseNow(crowd)) + 5);
  }
  const { id, code } = await sendThrough(crowd, 0);
  await select(crowd.database, "UPDATE verifications SET expire_ms = $1 WHERE id = $2", [
    Math.floor(await databaseNow(crowd)) - 1,
    Buffer.from(id, "base64url"),
  ]);
  for (const at of clocksAheadMs.keys()) {
    expect(await crowd.call(at, "VerifyOtp", { request_id: id, code })).toMatchObject({ reason: "OTP_EXPIRED" });
  }
});

test("of 1,000 guesses at once over all instances exactly 5 a verification are evaluated", async () => {
  expect(await guessAtAll(crowd, 8, 125)).toHaveLength(1_000);
});

test("a phone's limit and the day's cap are spent once, over all instances", async () => {
  expect(await sendToAll(crowd, { onePhone: 100, limit: 20, manyPhones: 200, dailyCap })).toBe(dailyCap);
});
