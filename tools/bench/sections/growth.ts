/**
 * Section "growth": what pending verifications cost: disk for each, CPU per cycle where there are many, and the time until a
 * server that starts with them answers.
 */
import { join } from "node:path";
import type { Effort } from "../effort.ts";
import { amount, range, spreadText, type Figures, type Findings, type Table } from "../findings.ts";
import { fromPackage, startInstalled } from "../drive/installed.ts";
import { driveClosed } from "../drive/load.ts";
import { makeReal, type Preloaded } from "../drive/real-sends.ts";
import { measureRound, median, medianOf, ratioOf, sendTimes, takeTurns } from "../drive/measure.ts";
import { census, multiply, trim, type Census } from "../drive/preload.ts";
import { residentBytes } from "../drive/processes.ts";
import type { Without } from "./compare.ts";
import { growthOnPostgres } from "./growth-postgres.ts";
import { prepareSqlite, type Place, type Prepared } from "../drive/prepared.ts";
import { sqliteTarget, type Target } from "../drive/targets.ts";

export async function growth(place: Place, effort: Effort, without: Pick<Without, "postgres">): Promise<Findings> {
  const empty = await prepareSqlite(place, "empty");
  const { real, id } = await makeReal(place, effort);
  const sizes = effort.sizes.map((count) => {
    const path = join(place.folder, `rows-${count}.db`);
    multiply(real.path, path, real.count, count);
    return { path, count, key: real.key, url: `file:${path}` };
  });
  const onPostgres = without.postgres ? undefined : await growthOnPostgres(place, effort);
  const disk = diskTable(census(real.path), real.count);
  const { table, ratio, heap } = await costs(place, effort, sizes);
  const most = sizes.at(-1) as Preloaded;
  const started = await starts(effort, place, [{ prepared: empty }, { prepared: most, id }]);
  const startTable: Table = {
    title: "Start to the first answer",
    note: "From the start of `otpd serve` to the 200 of a read with a key, or to the 404 where there is nothing to read. The file is in the system's cache.",
    head: ["pending verifications", "ms", "range"],
    rows: [0, most.count].map((count, i) => {
      const all = started[i] ?? [];
      return [amount(count), amount(median(all)), range(all)];
    }),
  };
  return {
    tables: [table, ...(onPostgres ? [onPostgres.table] : []), disk.table, keptTable(disk.bytesOf), startTable],
    figures: {
      growth: ratio,
      ...(onPostgres ? { growthPostgres: onPostgres.ratio } : {}),
      ...disk.figures,
      heap,
      start: median(started[1] ?? []) / 1_000,
    },
  };
}

/** Which tables hold something of each pending verification. */
const ofEach = ["verifications", "messages", "idempotency"];

function diskTable(
  { rows, bytes }: Census,
  count: number,
): { table: Table; figures: Figures; bytesOf: (table: string) => number } {
  const perEach = (table: string) => (bytes.get(table) ?? 0) / count;
  const withoutKey = ofEach.filter((table) => table !== "idempotency").reduce((sum, each) => sum + perEach(each), 0);
  return {
    bytesOf: perEach,
    figures: { disk: withoutKey, diskWithKey: withoutKey + perEach("idempotency") },
    table: {
      title: "Disk per pending verification",
      note: `Of ${amount(count)} real sends to random numbers, in whole pages with all indexes. Rows of tenants, days, minutes and prefixes (one for 10,000 numbers) are not of a verification, and not in the sum.`,
      head: ["table", "rows each", "bytes each"],
      rows: [
        ...ofEach.map((table) => [
          table === "idempotency" ? "idempotency (where the send has an Idempotency-Key)" : table,
          amount((rows.get(table) ?? 0) / count, 2),
          amount(perEach(table)),
        ]),
        ["all, without an Idempotency-Key", "", amount(withoutKey)],
        ["all, with one", "", amount(withoutKey + perEach("idempotency"))],
      ],
    },
  };
}

/** The longest that a code lives, and how long its verification is kept by default; in seconds. */
const [lifeSeconds, keptSeconds] = [600, 72 * 3_600];

function keptTable(bytesOf: (table: string) => number): Table {
  const each = bytesOf("verifications") + bytesOf("messages");
  return {
    title: "What that comes to",
    note: [
      "Reasoned, from the bytes above. Pending is where nobody types a code, for the 10 minutes that one lives at most. Ended",
      "verifications and their messages are kept for 72 hours (`OTP_RETENTION_HOURS`). Idempotency-Keys go after a day: they are not",
      "in the sum of what has ended.",
    ].join("\n"),
    head: ["cycles/s, all day", "pending at most", "their disk, GB", "ended, million", "their disk, GB"],
    rows: [1, 10, 100, 1_000].map((rate) => [
      amount(rate),
      amount(rate * lifeSeconds),
      amount((rate * lifeSeconds * each) / 1e9, 2),
      amount((rate * keptSeconds) / 1e6, 1),
      amount((rate * keptSeconds * each) / 1e9, 1),
    ]),
  };
}

async function costs(place: Place, effort: Effort, sizes: readonly Preloaded[]) {
  const { connections, rounds, roundMs, warmUpMs } = effort;
  const targets = await Promise.all(
    sizes.map((size) => sqliteTarget(place, `${amount(size.count)} pending`, size, {}, { nodeArgs: ["--expose-gc"] })),
  );
  const pathOf = new Map<Target, string>(targets.map((target, i) => [target, sizes[i]?.path ?? ""]));
  const clean = (target: Target) => trim(pathOf.get(target) ?? "");
  for (const target of targets) {
    await measureRound(target, connections, (lanes) => driveClosed(lanes, warmUpMs));
    clean(target);
  }
  const taken = await takeTurns(targets, rounds, connections, (lanes) => driveClosed(lanes, roundMs), clean);
  const resident = targets.map(({ server }) => residentBytes(server.pid));
  const live: number[] = [];
  for (const { server } of targets) live.push((await server.ask<{ liveBytes: number }>("settle")).liveBytes);
  for (const target of targets) await target.close();
  const cpu = taken.map((all) => medianOf(all, (round) => round.cpuMicros));
  const [first = 0, last = 0] = [live[0], live.at(-1)];
  const table: Table = {
    title: "Growth, on SQLite",
    note: "The same closed loop beside so many pending verifications. What a round adds is deleted before the next. RSS holds up to 16 MB of the file's pages.",
    head: [
      "pending verifications",
      "CPU µs per cycle",
      "range",
      "÷ fewest",
      "cycles/s",
      "send p50 / p99 ms",
      "RSS MB",
      "live heap MB",
      "file MB",
    ],
    rows: sizes.map(({ count, path }, i) => {
      const all = taken[i] ?? [];
      const bytes = [...census(path).bytes.values()].reduce((sum, each) => sum + each, 0);
      return [
        amount(count),
        amount(cpu[i] ?? Number.NaN),
        range(all.map((round) => round.cpuMicros)),
        spreadText(ratioOf(all, taken[0] ?? [])),
        amount(medianOf(all, (round) => round.perSecond)),
        sendTimes(all),
        amount((resident[i] ?? 0) / 1e6),
        amount((live[i] ?? 0) / 1e6, 1),
        amount(bytes / 1e6),
      ];
    }),
  };
  const rowsMore = (sizes.at(-1)?.count ?? 0) - (sizes[0]?.count ?? 0);
  const ratio = ratioOf(taken.at(-1) ?? [], taken[0] ?? []);
  return { table, ratio, heap: Math.max(0, last - first) / rowsMore };
}

/** Times the starts of `otpd serve` on each database, in turn. */
async function starts(
  { starts: times }: Effort,
  place: Place,
  databases: readonly { readonly prepared: Prepared; readonly id?: string }[],
): Promise<number[][]> {
  const installed = fromPackage(place);
  const all: number[][] = databases.map(() => []);
  for (let i = 0; i < times; i += 1) {
    for (const [d, { prepared, id }] of databases.entries()) {
      const started = await startInstalled(place, installed, prepared, { id });
      all[d]?.push(started.firstAnswerMs);
      await started.stop();
    }
  }
  return all;
}
