/**
 * Fallbacks that four instances on one database see fall due at the same moment: one of them goes on, by one call.
 */
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, inject, test } from "vitest";
import { tally } from "../support/clients/volley.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { select } from "../support/databases/rows.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { startCluster } from "./cluster.ts";

let folder: string;
let url: string;
beforeEach(async () => {
  folder = temporaryFolder();
  const made = await newDatabase();
  if (made === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  url = made;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const sends = 40;
/** Of as many prefixes: the lock of one that they share would have the instances wait for each other. */
const phones = Array.from({ length: sends }, (_, i) => `+31612${String((i + 1) * 7_919).padStart(6, "0")}`);
const channels = ["sms", "whatsapp", "voice"];

test(`${sends} codes go on twice through four processes, each time by one call and at its own time`, async () => {
  const cluster = await startCluster(folder, url, { OTP_VOICE_DAILY_CAP: "1000" });
  const message = { fallback_channels: ["whatsapp", "voice"], fallback_after_seconds: 15 };
  const hits = await cluster.fire(phones.map((phone) => ({ rpc: "SendOtp", message: { phone, ...message } })));
  expect(tally(hits)).toEqual({ OK: sends });
  const calls = () => phones.map((phone) => cluster.deployment.inbox.get(phone)?.length ?? 0);
  await expect.poll(() => Math.min(...calls()), { timeout: 300_000 }).toBeGreaterThanOrEqual(channels.length);
  const rows = await select(
    cluster.database,
    `SELECT count(*)::int AS messages, sum(calls)::int AS calls,
       count(DISTINCT (verification_id, channel))::int AS ways FROM messages`,
  );
  const all = sends * channels.length;
  expect(rows).toEqual([{ messages: all, calls: all, ways: all }]);
  expect(calls()).toEqual(phones.map(() => channels.length));
  const texts = phones.map((phone) => cluster.deployment.inbox.get(phone) ?? []);
  const codes = texts.map(([text = ""]) => /\d{6}/.exec(text)?.[0]);
  expect(texts.map(([, text = ""]) => /\d{6}/.exec(text)?.[0])).toEqual(codes);
  await cluster.stop();
});
