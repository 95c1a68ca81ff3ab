/**
 * Section "scarce": CPU per cycle where the file is larger than the memory that it may have, so that a cycle waits for pages
 * from the disk. The server and its share of the file cache are bounded by a control group.
 */
import { execFileSync } from "node:child_process";
import { closeSync, fsyncSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { confine } from "../drive/confined.ts";
import { driveClosed } from "../drive/load.ts";
import { measureRound, median, medianOf, ratioOf, sendTimes, type Round } from "../drive/measure.ts";
import { multiply } from "../drive/preload.ts";
import type { Place } from "../drive/prepared.ts";
import { makeReal } from "../drive/real-sends.ts";
import { sqliteTarget } from "../drive/targets.ts";
import type { Effort } from "../effort.ts";
import { amount, range, spreadText, type Findings } from "../findings.ts";

const mib = 1_048_576;
const pageBytes = 4_096;
/** What the service takes without a page of the file. */
const serviceBytes = 128 * mib;
const memoryMaxBytes = 1_024 * mib;

/** A round, and what it read from the disk for each cycle. */
interface Read extends Round {
  readonly pages: number;
}

export async function scarce(place: Place, effort: Effort): Promise<Findings> {
  const { connections, rounds, roundMs, warmUpMs } = effort;
  const { real } = await makeReal(place, effort);
  const count = effort.sizes.at(-1) ?? 0;
  const path = join(place.folder, "scarce.db");
  multiply(real.path, path, real.count, count);
  const fileBytes = statSync(path).size;
  const memoryBytes = Math.floor(Math.min(memoryMaxBytes, serviceBytes + fileBytes / 4) / mib) * mib;
  const confined = confine(memoryBytes);
  if (confined.prefix.length === 0) return { tables: [{ ...table, rows: [] }], figures: {} };
  evict(path);
  const ample = await sqliteTarget(place, `${amount(real.count)} pending, all in memory`, real);
  const name = `${amount(count)} pending, ${amount(fileBytes / mib)} MiB ${confined.how}`;
  const bounded = await sqliteTarget(place, name, { ...real, url: `file:${path}` }, {}, confined);
  const measured = [ample, bounded].map((target) => ({ target, taken: [] as Read[] }));
  for (let round = -1; round < rounds; round += 1) {
    for (const { target, taken } of measured) {
      const before = bytesRead(target.server.pid);
      const ms = round < 0 ? warmUpMs : roundMs;
      const done = await measureRound(target, connections, (lanes) => driveClosed(lanes, ms));
      const pages = (bytesRead(target.server.pid) - before) / pageBytes / ((done.perSecond * ms) / 1_000);
      if (round >= 0) taken.push({ ...done, pages });
    }
  }
  for (const { target } of measured) await target.close();
  confined.end();
  const [fewest = [], most = []] = measured.map(({ taken }) => taken);
  const rows = measured.map(({ target, taken }) => [
    target.name,
    amount(medianOf(taken, (round) => round.cpuMicros)),
    range(taken.map((round) => round.cpuMicros)),
    spreadText(ratioOf(taken, fewest)),
    amount(medianOf(taken, (round) => round.perSecond)),
    sendTimes(taken),
    amount(median(taken.map((round) => round.pages)), 1),
  ]);
  return { tables: [{ ...table, rows }], figures: { scarce: ratioOf(most, fewest) } };
}

const table = {
  title: "A file larger than its memory, on SQLite",
  note: [
    "The same closed loop; the larger file was put out of the system's cache before. What a round adds stays. Without control",
    "groups (version 1 or 2, and the right to make one) there is nothing here.",
  ].join("\n"),
  head: [
    "database",
    "CPU µs per cycle",
    "range",
    "÷ fewest",
    "cycles/s",
    "send p50 / p99 ms",
    "pages from the disk, a cycle",
  ],
};

/** Has the system forget what it keeps of a file: whoever reads a page first pays for it. */
function evict(path: string): void {
  const file = openSync(path, "r+");
  fsyncSync(file);
  closeSync(file);
  execFileSync("dd", [`if=${path}`, "iflag=nocache", "count=0", "status=none"]);
}

/** What a process has read from the disk so far. */
function bytesRead(pid: number): number {
  const [, bytes] = /^read_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8")) ?? [];
  return Number(bytes);
}
