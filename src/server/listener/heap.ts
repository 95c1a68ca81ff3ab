/**
 * Keeps V8's heap close to what is in use. Left to itself it lets the heap double before it collects, and the part for
 * young objects grow to 128 MiB, for as long as a stranger makes objects live just long enough; both come on top of what is
 * held.
 */
import { runInNewContext } from "node:vm";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { stopwatchMs } from "../../system.ts";

/** What the young part comes to within seconds of ordinary load: 16 MiB for each half, and the bound of other versions. */
const youngBytesMax = 33_554_432;
const lookMs = 250;
/** How often while nobody is connected: the young part may not grow then, so that whoever comes finds it as it was. */
const restMs = 1_000;
/** By how much the young part grows at a time, as V8 has it. */
const youngGrowthFactor = 2;
/** So much may the old part grow, in percent of what was in use, before it is collected. */
const oldGrowthPercent = 20;

/** How often it is looked whether anybody is connected, until nobody is. */
const idleLookMs = 1_000;

/**
 * Bounds the heap of this process. A flag of Node would do so too, but each way to start it would have to repeat the
 * flag. A start leaves 15 MB of garbage and of room for as much again: they are given back once `isIdle`, since that
 * takes some 30 ms.
 */
export function boundHeap(isIdle: () => boolean): void {
  setFlagsFromString(`--heap-growing-percent=${oldGrowthPercent}`);
  let factor = youngGrowthFactor;
  const look = () => {
    const isAtRest = isIdle();
    const young = isAtRest ? undefined : getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
    // A collection at rest makes it small again: held there, it would be collected for every few calls.
    const next = young !== undefined && young.space_size < youngBytesMax ? youngGrowthFactor : 1;
    if (next !== factor) setFlagsFromString(`--semi-space-growth-factor=${next}`);
    factor = next;
    setTimeout(look, isAtRest ? restMs : lookMs).unref();
  };
  setTimeout(look, lookMs).unref();
  const waiting = setInterval(() => {
    if (!isIdle()) return;
    clearInterval(waiting);
    collector()({ type: "major", execution: "sync", flavor: "last-resort" });
  }, idleLookMs);
  waiting.unref();
}

/** What may be left behind before it is collected. */
const leftBytesMax = 8_388_608;
/** What a call may wait for such collections at the mean. */
const meanWaitMs = 10;
/** But so many times as long as one took is the longest rest: what is left behind meanwhile has no other bound. */
const longestRest = 4;

let gc: NodeJS.GCFunction | undefined;
let bytesLeft = 0;
let isDue = false;
let restsUntilMs = 0;

/**
 * Notes that strangers who are gone have left so many bytes behind, which the collector alone frees without seeing their
 * size. Collects all there is once that is much, which takes some 30 ms, and 100 beside thousands of connections: then it
 * rests meanwhile.
 */
export function leftBehind(bytes: number): void {
  bytesLeft += bytes;
  if (bytesLeft < leftBytesMax || isDue) return;
  isDue = true;
  const waitMs = restsUntilMs - stopwatchMs();
  if (waitMs > 0) setTimeout(collect, waitMs).unref();
  // A turn later, when what was destroyed in this one has let go of all it had.
  else setImmediate(() => setImmediate(collect));
}

/** What strangers may have sent before what it was read into is collected. */
const readBytesMax = 8_388_608;

let bytesRead = 0;

/**
 * Notes that so much came from strangers, pieces and records counted as they are charged. What it was read into is garbage at once, but V8 lets 64 MiB of such memory come
 * together, and more while it collects. It is all young, so the young part is collected by itself, which takes a millisecond or two.
 */
export function wasRead(bytes: number): void {
  bytesRead += bytes;
  if (bytesRead < readBytesMax) return;
  bytesRead = 0;
  collector()({ type: "minor" });
}

function collect(): void {
  bytesLeft = 0;
  isDue = false;
  const beganMs = stopwatchMs();
  collector()();
  const endedMs = stopwatchMs();
  const tookMs = endedMs - beganMs;
  // A call that comes at any time meets one that takes `tookMs` of each turn, and waits for half of it.
  const turnMs = tookMs ** 2 / (2 * meanWaitMs);
  restsUntilMs = endedMs + Math.min(turnMs - tookMs, longestRest * tookMs);
}

function collector(): NodeJS.GCFunction {
  if (gc === undefined) {
    setFlagsFromString("--expose-gc");
    gc = runInNewContext("gc") as NodeJS.GCFunction;
    setFlagsFromString("--no-expose-gc");
  }
  return gc;
}
