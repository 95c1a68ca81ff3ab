/**
 * What strangers' requests leave behind when they are over is collected once it is 8 MiB, though V8 sees hardly any of it; and so is
 * what they were read into.
 */
import { once } from "node:events";
import { connect, type ClientHttp2Session } from "node:http2";
import { constants, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { openRaw } from "../support/clients/raw.ts";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";

/** Requests of 12 kB of headers each: 24 MiB of what is collected every 8. */
const [rounds, perRound] = [128, 16];
const collectionsMin = 2;

let listener: Listener;
let session: ClientHttp2Session | undefined;
afterEach(async () => {
  session?.destroy();
  await listener.stop(0);
});

async function ask(caller: ClientHttp2Session, headers: Record<string, string>): Promise<void> {
  const stream = caller.request({ ":path": `/v1/otp/${"A".repeat(22)}`, ...headers });
  stream.resume();
  await once(stream, "close");
}

/** Longer than any rest after a collection, in times of what that took. The process may have stood still in between. */
const [restsMax, stillMsMax] = [20, 5_000];

const { NODE_PERFORMANCE_GC_MAJOR: major, NODE_PERFORMANCE_GC_MINOR: minor } = constants;

/**
 * How often there was a collection on demand of one of these kinds while something was done, or afterwards, until it was as often as
 * it has to be.
 */
async function collectionsOf(wanted: number[], work: () => Promise<void>, least: number): Promise<number> {
  let [forced, duration, endedMs] = [0, 0, 0];
  const count = (entries: PerformanceEntry[]) => {
    for (const entry of entries as (PerformanceEntry & { detail: { flags: number; kind: number } })[]) {
      const { flags, kind } = entry.detail;
      if (flags !== constants.NODE_PERFORMANCE_GC_FLAGS_FORCED || !wanted.includes(kind)) continue;
      forced += 1;
      duration = entry.duration;
      endedMs = entry.startTime + duration;
    }
  };
  const observer = new PerformanceObserver((list) => count(list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  await work();
  // The last ones are told a turn after the fact.
  const turnsAfter = 4;
  const isDue = () => forced < least && performance.now() < endedMs + restsMax * duration + stillMsMax;
  for (let turns = 0; turns < turnsAfter || isDue(); turns += 1) {
    await nextTurn();
    count(observer.takeRecords());
  }
  observer.disconnect();
  return forced;
}

/** The same, while so many requests with long headers were answered. */
async function collections(headers: Record<string, string>, least: number): Promise<number> {
  listener = await startListener();
  const opened = connect(listener.url);
  session = opened;
  return await collectionsOf(
    [major],
    async () => {
      await ask(opened, headers);
      const long = "x".repeat(12_000);
      for (let i = 0; i < rounds; i += 1)
        await Promise.all(Array.from({ length: perRound }, () => ask(opened, { ...headers, "x-long": long })));
    },
    least,
  );
}

test("those of a caller with a secret key are V8's to collect", async () => {
  expect(await collections({ authorization: `Bearer ${testKey}` }, 0)).toBe(0);
});

test.each([
  ["a stranger's requests over HTTP/1 were read into", "", 3, 4],
  ["a caller's with a secret key were, which is V8's", `authorization: Bearer ${testKey}\r\n`, 0, 0],
])("what %s", async (_, header, least, most) => {
  listener = await startListener();
  const path = `/v1/otp/${"A".repeat(22)}`;
  const text = `GET ${path} HTTP/1.1\r\nhost: otpd\r\n${header}x-long: ${"x".repeat(12_000)}\r\n\r\n`;
  const caller = await openRaw(listener.port);
  caller.write(`GET ${path} HTTP/1.1\r\nhost: otpd\r\n${header}\r\n`);
  await listener.answered(1);
  const requests = Math.ceil((28 * 1_048_576) / text.length);
  const forced = await collectionsOf(
    // While V8 marks, it makes a whole one of one of the young part.
    [minor, major],
    async () => {
      caller.write(text.repeat(requests));
      await listener.answered(1 + requests);
    },
    least,
  );
  caller.destroy();
  expect(forced).toBeGreaterThanOrEqual(least);
  expect(forced).toBeLessThanOrEqual(most);
});

// The last one: a collection may be due when it ends.
test("a stranger's, on a connection that stays", async () => {
  expect(await collections({}, collectionsMin)).toBeGreaterThanOrEqual(collectionsMin);
});
