/** What strangers' requests leave behind when they are over is collected once it is 8 MiB, though V8 sees hardly any of it. */
import { once } from "node:events";
import { connect, type ClientHttp2Session } from "node:http2";
import { constants, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";

/** Requests of 12 kB of headers each: 24 MiB of what is collected every 8. */
const [rounds, perRound] = [128, 16];
const collectionsMin = 2;

let listener: Listener;
let session: ClientHttp2Session;
afterEach(async () => {
  session.destroy();
  await listener.stop(0);
});

async function ask(headers: Record<string, string>): Promise<void> {
  const stream = session.request({ ":path": `/v1/otp/${"A".repeat(22)}`, ...headers });
  stream.resume();
  await once(stream, "close");
}

/** How often all was collected on demand while so many requests with long headers were answered. */
async function collections(headers: Record<string, string>): Promise<number> {
  listener = await startListener();
  session = connect(listener.url);
  let forced = 0;
  const count = (entries: PerformanceEntry[]) => {
    for (const { detail } of entries as (PerformanceEntry & { detail: { flags: number } })[])
      if (detail.flags === constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) forced += 1;
  };
  const observer = new PerformanceObserver((list) => count(list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  await ask(headers);
  const long = "x".repeat(12_000);
  for (let i = 0; i < rounds; i += 1)
    await Promise.all(Array.from({ length: perRound }, () => ask({ ...headers, "x-long": long })));
  // The last ones are told a turn after the fact.
  await nextTurn();
  await nextTurn();
  count(observer.takeRecords());
  observer.disconnect();
  return forced;
}

test("a stranger's, on a connection that stays", async () => {
  expect(await collections({})).toBeGreaterThanOrEqual(collectionsMin);
});

test("and those of a caller with a secret key are V8's to collect", async () => {
  expect(await collections({ authorization: `Bearer ${testKey}` })).toBe(0);
});
