/** The watch over a database: silence is noticed once, for as long as it lasts, and its end at once. */
import { expect, inject, test } from "vitest";
import { createWatch } from "../../src/store/postgres/watch.ts";
import { startTcpProxy, through } from "../support/network/tcp-proxy.ts";

const database = () => inject("postgres") ?? "";
const port = () => Number(new URL(database()).port);

/** Twice as many as are kept under way. */
const attempts = 16;

/** A pool as the watch sees it: nothing is asked of it. */
function idlePool() {
  const calls: ("drop" | "resume")[] = [];
  return { calls, answers: () => 0, drop: () => void calls.push("drop"), resume: () => void calls.push("resume") };
}

/** Resolves once the watch has its connection. On a slow machine that may be taken for a silence before. */
async function connected({ calls }: ReturnType<typeof idlePool>): Promise<void> {
  await expect.poll(() => calls.at(-1)).toBe("resume");
  calls.splice(0);
}

/** A watch that has noticed that the network fell silent. */
async function watchInSilence() {
  const proxy = await startTcpProxy(port());
  const pool = idlePool();
  const watch = createWatch({ url: through(proxy, database()), connections: pool, ownName: "me", onNudge: () => {} });
  await connected(pool);
  proxy.swallow();
  await expect.poll(() => pool.calls).toEqual(["drop"]);
  return { proxy, pool, watch };
}

test("a silence is one, however long it is and however many attempts it swallows; whatever ends it is seen at once", async () => {
  const { proxy, pool, watch } = await watchInSilence();
  // One after the other is given up for a new one, and none of them is heard of again.
  const before = proxy.connections();
  await expect.poll(proxy.connections).toBeGreaterThan(before + attempts);
  expect(pool.calls).toEqual(["drop"]);
  proxy.restore(() => false);
  await expect.poll(() => pool.calls).toEqual(["drop", "resume"]);
  await watch.close();
  await proxy.stop();
});

test("a silence is noticed on the connection there is, before another is tried", async () => {
  const proxy = await startTcpProxy(port());
  const pool = idlePool();
  let attemptsAtDrop = 0;
  const connections = {
    ...pool,
    drop() {
      attemptsAtDrop = proxy.connections();
      pool.drop();
    },
  };
  const watch = createWatch({ url: through(proxy, database()), connections, ownName: "me", onNudge: () => {} });
  await connected(pool);
  proxy.swallow();
  const before = proxy.connections();
  await expect.poll(() => pool.calls).toEqual(["drop"]);
  expect(attemptsAtDrop).toBe(before);
  await watch.close();
  await proxy.stop();
});

test("a silence ends where connecting takes longer than attempts come", async () => {
  const { proxy, pool, watch } = await watchInSilence();
  proxy.delay(3_000);
  proxy.restore(() => false);
  await expect.poll(() => pool.calls).toEqual(["drop", "resume"]);
  await watch.close();
  await proxy.stop();
});

test("a database that refuses is not silent: calls find out by themselves", async () => {
  const proxy = await startTcpProxy(port());
  await proxy.stop();
  const pool = idlePool();
  const watch = createWatch({ url: through(proxy, database()), connections: pool, ownName: "me", onNudge: () => {} });
  await expect.poll(() => pool.calls).toEqual(["resume", "resume"]);
  await watch.close();
});

test("while others get answers, one connection without any is no silence", async () => {
  const proxy = await startTcpProxy(port());
  let answers = 0;
  const pool = { ...idlePool(), answers: () => (answers += 1) };
  const watch = createWatch({ url: through(proxy, database()), connections: pool, ownName: "me", onNudge: () => {} });
  await connected(pool);
  proxy.swallow();
  // It has looked for twice as many ticks as would be silence, at each of them twice.
  const before = answers;
  await expect.poll(() => answers).toBeGreaterThan(before + 20);
  expect(pool.calls).toEqual([]);
  await watch.close();
  await proxy.stop();
});
