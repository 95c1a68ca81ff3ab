/**
 * What anybody can have the service log while its database is away: a bounded number of lines a second, and how many more there
 * were.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { inDatabase } from "../support/databases/rows.ts";
import { startWorld, type World } from "../support/service/world.ts";

const linesPerSecond = 10;
const asked = 40;

let world: World;
beforeEach(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" });
});
afterEach(() => world.stop());

const preflight = () =>
  fetch(`${world.url}/v1/otp/send`, {
    method: "OPTIONS",
    headers: { origin: "https://shop.example", "access-control-request-method": "POST" },
  });
const ownKey = () =>
  fetch(`${world.url}/v1/otp/send`, {
    method: "POST",
    headers: { authorization: `Bearer ${world.key}`, "content-type": "application/json" },
    body: "{}",
  });
const guess = () =>
  fetch(`${world.adminUrl}/console/session`, { headers: { cookie: `otpd-console=${"A".repeat(43)}` } });

test.each([
  ["preflights", "key_origins", preflight],
  ["keys that it cannot tell", "api_keys", ownKey],
  ["guesses at the console's sessions", "console_sessions", guess],
])("%s that meet a fault of the database", async (_, table, ask) => {
  inDatabase(world.databasePath, (db) => db.exec(`ALTER TABLE ${table} RENAME TO away`));
  for (let i = 0; i < asked; i += 1) expect((await ask()).status).toBe(503);
  const told = () => world.observed.filter(({ event }) => event === "fault");
  expect(told()).toHaveLength(linesPerSecond);
  world.system.advance(1_000);
  await ask();
  expect(told()).toHaveLength(linesPerSecond + 1);
  // Of the faults, and of the requests that were refused for them.
  const rest = world.observed
    .filter(({ event }) => event === "turnedAwayRest")
    .map(({ with: [count] }) => Number(count));
  expect(rest.reduce((sum, count) => sum + count, 0)).toBe(2 * (asked - linesPerSecond));
  inDatabase(world.databasePath, (db) => db.exec(`ALTER TABLE away RENAME TO ${table}`));
});
