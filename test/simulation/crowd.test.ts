/**
 * A crowd before a provider that hangs: more messages than the worker can have under way, so that most wait in its hand
 * while their leases run out and their verifications end. Kept apart from the seeds, which rarely get so far.
 */
import { expect, test } from "vitest";
import { Callers } from "./callers.ts";
import { World } from "./world.ts";
import { extent } from "../support/extent.ts";

const life = {
  dailyMessagesMax: undefined,
  ttlMs: 180_000,
  fraudGuard: "observe" as const,
  phoneLimits: [{ burst: 1000, intervalMs: 1_000 }],
};

/** Sends to `count` phones at once, before a provider that never answers. */
async function sendToMany(count: number): Promise<{ world: World; callers: Callers; ids: string[] }> {
  const world = new World(1, { policy: life, providers: 1, sendWaitMs: 0 });
  const callers = new Callers(world);
  await world.boot();
  for (const provider of world.providers) provider.mood = "hanging";
  for (let i = 0; i < count; i++) {
    callers.call({ rpc: "send", phone: `+3161000${String(i).padStart(4, "0")}`, knownUser: false, purpose: "" });
  }
  await world.rest();
  return { world, callers, ids: world.invariants.allVerifications().map(({ id }) => id) };
}

/** Lets time pass second by second, looking at everything after every tenth. */
async function pass(world: World, seconds: number): Promise<void> {
  for (let second = 1; second <= seconds; second++) {
    await world.advance(1_000);
    if (second % 10 === 0) world.invariants.inspect();
  }
}

test("a message that waited is not called for with under a minute of life, nor twice under one lease", async () => {
  const { world } = await sendToMany(extent(450, 900));
  await pass(world, 150);
  expect(world.invariants.smsCount).toBeGreaterThan(300);
  await pass(world, 40);
  const owed = world.db.prepare("SELECT count(*) FROM messages WHERE due_ms IS NOT NULL").pluck().get();
  expect(owed).toBe(0);
  await world.end();
});

test("a message whose verification was canceled while it waited is not sent", async () => {
  const { world, callers, ids } = await sendToMany(100);
  expect(world.invariants.smsCount).toBe(64);
  for (const id of ids) callers.call({ rpc: "cancel", id });
  await world.rest();
  await pass(world, 60);
  expect(world.invariants.smsCount).toBe(64);
  await world.end();
});
