/**
 * Messages that one instance gives back are delivered by another: at once where the nudge gets through, and with the next
 * look at the outbox where it does not.
 */
import { afterEach, beforeEach, expect, inject, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { ann, createActs, ringOf } from "../store/acts.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { select } from "../support/databases/rows.ts";
import { createManualSystem, createQuietSystem, type ManualSystem } from "../support/service/system.ts";
import { startTcpProxy, through, type TcpProxy } from "../support/network/tcp-proxy.ts";
import { startWorld, type World } from "../support/service/world.ts";

const messages = 3;

let url: string;
let proxy: TcpProxy;
let world: World;
let other: Store;
let otherNudges: number;
beforeEach(async () => {
  url = await ownDatabase();
  proxy = await startTcpProxy(Number(new URL(inject("postgres") ?? "").port));
});
afterEach(async () => {
  await other.close();
  await world.stop();
  await proxy.stop();
});

/** The instance that delivers, behind the proxy, and one beside it that takes no message itself. */
async function start(system: ManualSystem): Promise<void> {
  world = await startWorld({ OTP_DATABASE_URL: through(proxy, url) }, system);
  otherNudges = 0;
  other = await openOnPostgres({ url, system, onNudge: () => (otherNudges += 1) });
}

/** A database that nobody else's instances listen in. */
async function ownDatabase(): Promise<string> {
  databases += 1;
  const name = `nudges_${process.pid}_${databases}`;
  await select({ kind: "postgres", url: inject("postgres") ?? "" }, `CREATE DATABASE ${name}`);
  const own = new URL(inject("postgres") ?? "");
  own.pathname = `/${name}`;
  return own.href;
}
let databases = 0;

/** The database's processes that serve those who listen, and have felt its pulse since. */
async function listeners(): Promise<number[]> {
  const rows = await select(
    { kind: "postgres", url },
    `SELECT pid FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'otpd watch' AND query = 'SELECT 1'`,
  );
  return rows.map(({ pid }) => Number(pid));
}

/** Has the other instance give back messages, one after the other, and sees each delivered. */
async function giveBack(): Promise<void> {
  const acts = createActs(other, world.system, ringOf(7));
  for (let i = 0; i < messages; i += 1) {
    // Nudges are at most ten a second, by the clock that stands still here; and no look is due yet.
    world.system.advance(500);
    const sms = world.network.received.length;
    await other.releaseMessages([await acts.send(ann)]);
    await expect.poll(() => world.network.received.length, { interval: 5 }).toBe(sms + 1);
  }
}

test("what one instance gives back another delivers without looking, and the one that gave it back is not told", async () => {
  await start(createQuietSystem());
  await expect.poll(listeners).toHaveLength(2);
  await giveBack();
  expect(otherNudges).toBe(0);
});

test("a listener that was cut off listens again", async () => {
  await start(createQuietSystem());
  await expect.poll(listeners).toHaveLength(2);
  const before = await listeners();
  proxy.cut();
  await expect.poll(async () => (await listeners()).filter((pid) => !before.includes(pid))).toHaveLength(1);
  await giveBack();
});

test("with nobody listening every message is delivered all the same, by the next look", async () => {
  let isOver = false;
  const cutting = (async () => {
    while (!isOver) await proxy.cutAt("there", "LISTEN");
  })();
  await start(createManualSystem());
  await giveBack();
  expect(world.network.received).toHaveLength(messages);
  isOver = true;
  // One more, so that the last trap springs.
  await cutting;
});
