/**
 * Section "latency": what a caller waits at a rate that the server can keep up with. Cycles start at fixed moments whether
 * or not earlier ones are done, and their time runs from there, so that a pause counts for all who came during it.
 */
import type { PostgresServer } from "../../../test/support/databases/postgres.ts";
import { installBetterAuth } from "../drive/better-auth.ts";
import type { Without } from "./compare.ts";
import type { Effort } from "../effort.ts";
import { amount, spreadText, type Figures, type Findings, type Table } from "../findings.ts";
import { driveClosed, driveOpen } from "../drive/load.ts";
import { measureRound, medianOf, ratioOf, takeTurns, type Round } from "../drive/measure.ts";
import { prepare, prepareSqlite, type Place } from "../drive/prepared.ts";
import {
  noopTarget,
  postgresTarget,
  sqliteTarget,
  startDatabase,
  startPeer,
  startService,
  type Target,
} from "../drive/targets.ts";

/** A target is not driven at a rate beyond this share of what it did in the closed loop: it would never catch up. */
const rateShareMax = 0.9;

export async function latency(place: Place, effort: Effort, without: Without): Promise<Findings> {
  let postgres: PostgresServer | undefined;
  try {
    const service = await sqliteTarget(place, "otpd on SQLite", await prepareSqlite(place, "latency"));
    const noop = await noopTarget(place);
    const targets: Target[] = [service, noop];
    if (!without.postgres) {
      postgres = await startDatabase();
      const prepared = await prepare(await postgres.createDatabase());
      const server = await startService(place, prepared);
      const name = "otpd on PostgreSQL, one instance";
      targets.push({ ...postgresTarget(place, name, postgres, prepared, [server]), close: () => server.stop() });
    }
    if (!without.peer) {
      const pragmas = ["journal_mode = WAL", "synchronous = FULL"];
      const started = await startPeer(place, installBetterAuth(), "latency-peer", pragmas);
      targets.push(started.target("better-auth, WAL and FULL, no session", "power loss", false));
    }
    const most = new Map<Target, number>();
    for (const target of targets) {
      const warm = await measureRound(target, effort.connections, (lanes) => driveClosed(lanes, effort.warmUpMs));
      most.set(target, warm.perSecond);
    }
    const rows: string[][] = [];
    const figures: Figures = {};
    for (const { perSecond, roundMs } of effort.rates) {
      // What is asked is asked of the service on SQLite, whether it keeps up or not.
      const isDriven = (target: Target) =>
        target === service || perSecond <= rateShareMax * (most.get(target) ?? Number.POSITIVE_INFINITY);
      const driven = targets.filter(isDriven);
      const taken = await takeTurns(driven, effort.rounds, effort.lanes, (lanes) =>
        driveOpen(lanes, perSecond, roundMs),
      );
      const base = taken[driven.indexOf(noop)] ?? [];
      for (const [i, { name }] of driven.entries()) rows.push(rowOf(name, perSecond, taken[i] ?? [], base));
      for (const { name } of targets.filter((target) => !isDriven(target))) {
        rows.push([name, `${amount(perSecond)} (more than it does)`]);
      }
      const ours = taken[0] ?? [];
      if (perSecond === 50) figures.lone = ratioOf(ours, base);
      if (perSecond === 1_000) {
        figures.sendP50 = medianOf(ours, ({ send }) => send.p50);
        figures.sendP99 = medianOf(ours, ({ send }) => send.p99);
      }
    }
    for (const target of targets) await target.close();
    return {
      figures,
      tables: [
        {
          title: "Latency at a fixed rate",
          note: [
            "An open loop: cycles start evenly spaced, and their time runs from when they were meant to start. Medians of the rounds'",
            "percentiles, in brackets the worst round's. The provider accepts at once, and a send waits for that, as shipped.",
          ].join("\n"),
          head: [
            "server",
            "cycles/s",
            "send p50 ms",
            "send p99 ms",
            "verify p50 ms",
            "verify p99 ms",
            "of a core",
            "CPU µs per cycle",
            "÷ no-op",
          ],
          rows,
        },
        await slowProvider(place, effort),
      ],
    };
  } finally {
    await postgres?.stop();
  }
}

/** As providers of SMS take, from one continent to another. */
const providerMs = 300;

/** What is held while a real provider takes its time, by how many callers there are at once. */
async function slowProvider(place: Place, { rounds, roundMs, warmUpMs, crowds }: Effort): Promise<Table> {
  const target = await sqliteTarget(place, "", await prepareSqlite(place, "slow-provider"), { providerMs });
  await measureRound(target, crowds[0] ?? 1, (lanes) => driveClosed(lanes, warmUpMs));
  const rows: string[][] = [];
  for (const crowd of crowds) {
    const [taken = []] = await takeTurns([target], rounds, crowd, (lanes) => driveClosed(lanes, roundMs));
    rows.push([
      amount(crowd),
      amount(medianOf(taken, (round) => round.perSecond)),
      amount(medianOf(taken, ({ send }) => send.p50)),
      amount(medianOf(taken, ({ send }) => send.p99)),
    ]);
  }
  await target.close();
  return {
    title: `A provider that takes ${providerMs} ms, on SQLite`,
    note: "A closed loop of so many callers, each of whom sends and then verifies.",
    head: ["callers", "cycles/s", "send p50 ms", "send p99 ms"],
    rows,
  };
}

/** Below this share of the rate the server did not keep up, and a percentile tells how long the round was. */
const keptUpMin = 0.97;

function rowOf(name: string, perSecond: number, rounds: readonly Round[], base: readonly Round[]): string[] {
  const shown = (figure: (round: Round) => number) =>
    `${amount(medianOf(rounds, figure), 2)} (${amount(Math.max(...rounds.map(figure)), 2)})`;
  const done = medianOf(rounds, (round) => round.perSecond);
  return [
    name,
    amount(perSecond) + (done < perSecond * keptUpMin ? ` (kept up with ${amount(done)})` : ""),
    shown(({ send }) => send.p50),
    shown(({ send }) => send.p99),
    shown(({ verify }) => verify.p50),
    shown(({ verify }) => verify.p99),
    `${amount((medianOf(rounds, ({ cpuMicros }) => cpuMicros) * perSecond) / 1e4)} %`,
    amount(medianOf(rounds, ({ cpuMicros }) => cpuMicros)),
    base.length === 0 ? "" : spreadText(ratioOf(rounds, base)),
  ];
}
