/**
 * Section "compare": what a durable send + verify costs beside two calls that do nothing, on SQLite with and without group
 * commit, on PostgreSQL with one instance and with two, over gRPC, and beside better-auth.
 */
import type { PostgresServer } from "../../../test/support/databases/postgres.ts";
import { betterAuthVersion, installBetterAuth } from "../drive/better-auth.ts";
import type { Effort } from "../effort.ts";
import { amount, range, spreadText, type FigureName, type Figures, type Findings, type Table } from "../findings.ts";
import { driveClosed } from "../drive/load.ts";
import { measureRound, medianOf, ratioOf, sendTimes, takeTurns, type Round } from "../drive/measure.ts";
import { pinLoad, residentBytes, startServer } from "../drive/processes.ts";
import type { DelayOptions } from "../servers/delay.ts";
import { prepare, prepareSqlite, type Place } from "../drive/prepared.ts";
import {
  grpcNoopTarget,
  grpcTarget,
  noopTarget,
  postgresTarget,
  rawTarget,
  sqliteTarget,
  startDatabase,
  startPeer,
  startService,
  type Target,
} from "../drive/targets.ts";

const ours = {
  sqlite: "otpd on SQLite",
  perCall: "otpd on SQLite, a transaction per call",
  grpc: "otpd on SQLite, over gRPC",
  farPostgres: "otpd on PostgreSQL, one instance, 1 ms away",
  onePostgres: "otpd on PostgreSQL, one instance",
  twoPostgres: "otpd on PostgreSQL, two instances",
};
const peers = {
  normal: `better-auth ${betterAuthVersion}, WAL and NORMAL, no session`,
  full: `better-auth ${betterAuthVersion}, WAL and FULL, no session`,
  session: `better-auth ${betterAuthVersion}, WAL and NORMAL, with the session it makes by default`,
  plain: `better-auth ${betterAuthVersion}, SQLite as it opens by default (rollback journal), with the session`,
};

/** What is left out, as where there is no registry to install from. */
export interface Without {
  readonly peer: boolean;
  readonly postgres: boolean;
}

export async function compare(place: Place, effort: Effort, without: Without): Promise<Findings> {
  let postgres: PostgresServer | undefined;
  try {
    const targets: Target[] = [await noopTarget(place), await rawTarget(place)];
    targets.push(await sqliteTarget(place, ours.sqlite, await prepareSqlite(place, "compare")));
    targets.push(
      await sqliteTarget(place, ours.perCall, await prepareSqlite(place, "per-call"), { isOneAtATime: true }),
    );
    if (!without.postgres) {
      postgres = await startDatabase();
      targets.push(...(await onPostgres(place, postgres)));
    }
    if (!without.peer) targets.push(...(await betterAuth(place)));
    const grpcNoop = await grpcNoopTarget(place);
    targets.push(grpcNoop, await grpcTarget(place, ours.grpc, await prepareSqlite(place, "grpc")));

    const { connections, rounds, roundMs, warmUpMs } = effort;
    for (const target of targets) await measureRound(target, connections, (lanes) => driveClosed(lanes, warmUpMs));
    const taken = await takeTurns(targets, rounds, connections, (lanes) => driveClosed(lanes, roundMs));
    const resident = targets.map((target) => residentOf(target));
    for (const target of targets) await target.close();
    return findings(targets, taken, resident, grpcNoop.name);
  } finally {
    await postgres?.stop();
  }
}

async function onPostgres(place: Place, postgres: PostgresServer): Promise<Target[]> {
  const prepared = await prepare(await postgres.createDatabase());
  const first = await startService(place, prepared);
  const second = await startService(place, prepared);
  const delay: DelayOptions = { port: postgres.port, ms: 1 };
  const network = await startServer(place.folder, "delay.ts", [JSON.stringify(delay)]);
  pinLoad(network.pid);
  const url = new URL(prepared.url);
  url.port = `${network.port}`;
  const far = await startService(place, { ...prepared, url: url.href });
  const stopAll = async () => {
    await Promise.all([first.stop(), second.stop(), far.stop()]);
    await network.stop();
  };
  return [
    postgresTarget(place, ours.onePostgres, postgres, prepared, [first]),
    postgresTarget(place, ours.twoPostgres, postgres, prepared, [first, second]),
    { ...postgresTarget(place, ours.farPostgres, postgres, prepared, [far]), close: stopAll },
  ];
}

async function betterAuth(place: Place): Promise<Target[]> {
  const entry = installBetterAuth();
  const wal = "journal_mode = WAL";
  const normal = await startPeer(place, entry, "normal", [wal, "synchronous = NORMAL"]);
  const full = await startPeer(place, entry, "full", [wal, "synchronous = FULL"]);
  const plain = await startPeer(place, entry, "plain", []);
  return [
    normal.target(peers.normal, "a crash of the process", false),
    full.target(peers.full, "power loss", false),
    { ...normal.target(peers.session, "a crash of the process", true), close: () => Promise.resolve() },
    plain.target(peers.plain, "power loss", true),
  ];
}

/** What the processes of the service itself hold. A database's processes share memory, which would be counted for each. */
function residentOf({ bill }: Target): number {
  return (bill["service"] ?? []).reduce((sum, pid) => sum + residentBytes(pid), 0);
}

function findings(
  targets: readonly Target[],
  taken: readonly Round[][],
  resident: readonly number[],
  grpcNoop: string,
): Findings {
  const roundsOf = (name: string) => taken[targets.findIndex((target) => target.name === name)];
  const [noopRounds = []] = taken;
  /** Of two targets by name, where both were driven. */
  const ratio = (name: FigureName, over: string, under: string): Figures => {
    const [rounds, base] = [roundsOf(over), roundsOf(under)];
    return rounds === undefined || base === undefined ? {} : { [name]: ratioOf(rounds, base) };
  };
  const cpuOf = (name: string) => medianOf(roundsOf(name) ?? [], (round) => round.cpuMicros);
  const rateOf = (name: string) => medianOf(roundsOf(name) ?? [], (round) => round.perSecond);
  const table: Table = {
    title: "One cycle (a durable send and its verify), servers side by side",
    note: [
      "A closed loop of 32 connections over HTTP/1.1 and JSON, or gRPC where it says so. All processes of a server are on one core,",
      "PostgreSQL's beside those of the service, and the load is on another. CPU is user and system time per cycle, as the kernel",
      "counts it: the median of the rounds, and their range. Latencies are those of a full core, so they say little of a usual day.",
      "better-auth has users that are there already, no rate limit and no log.",
    ].join("\n"),
    head: [
      "server",
      "an answer survives",
      "CPU µs per cycle",
      "range",
      "÷ no-op",
      "÷ ours",
      "cycles/s",
      "send p50 / p99 ms",
      "RSS MB",
    ],
    rows: targets.map(({ name, durability }, i) => {
      const rounds = taken[i] ?? [];
      const cpu = medianOf(rounds, (round) => round.cpuMicros);
      return [
        name,
        durability,
        amount(cpu) + split(rounds),
        range(rounds.map((round) => round.cpuMicros)),
        spreadText(ratioOf(rounds, noopRounds)),
        amount(cpu / cpuOf(ours.sqlite), 2),
        amount(medianOf(rounds, (round) => round.perSecond)),
        sendTimes(rounds),
        amount((resident[i] ?? 0) / 1e6),
      ];
    }),
  };
  return {
    tables: [table, ...holds(cpuOf, rateOf, roundsOf)],
    figures: {
      cycle: ratioOf(roundsOf(ours.sqlite) ?? [], noopRounds),
      ...ratio("grpc", ours.grpc, grpcNoop),
      ...ratio("postgres", ours.onePostgres, ours.sqlite),
      ...ratio("instances", ours.twoPostgres, ours.onePostgres),
      ...ratio("peer", peers.normal, ours.sqlite),
      groupCommit: rateOf(ours.sqlite) / rateOf(ours.perCall),
    },
  };
}

/** What each part of a server took, where it has several. */
function split(rounds: readonly Round[]): string {
  const parts = Object.keys(rounds[0]?.parts ?? {});
  if (parts.length < 2) return "";
  return ` (${parts.map((part) => `${part} ${amount(medianOf(rounds, (round) => round.parts[part] ?? 0))}`).join(", ")})`;
}

/** What follows for a machine, or for several. */
function holds(
  cpuOf: (name: string) => number,
  rateOf: (name: string) => number,
  roundsOf: (name: string) => Round[] | undefined,
): Table[] {
  const day = 86_400;
  const sqlite = rateOf(ours.sqlite);
  const rows = [
    ["one machine, SQLite, one core full: cycles/s", amount(sqlite), "measured"],
    ["the same, in a day", `${amount((sqlite * day) / 1e6)} million`, "reasoned: × 86,400"],
    ["the same at half a core", amount(sqlite / 2), "reasoned: ÷ 2"],
  ];
  const one = roundsOf(ours.onePostgres);
  if (one !== undefined) {
    const instance = 1e6 / medianOf(one, ({ parts }) => parts["service"] ?? 0);
    const database = 1e6 / medianOf(one, ({ parts }) => parts["PostgreSQL"] ?? 0);
    rows.push(
      ["one instance and PostgreSQL on one core together: cycles/s", amount(rateOf(ours.onePostgres)), "measured"],
      ["CPU per cycle, two instances ÷ one", amount(cpuOf(ours.twoPostgres) / cpuOf(ours.onePostgres), 2), "measured"],
      ["an instance with a core of its own: cycles/s", amount(instance), "reasoned: 1 s ÷ its CPU per cycle"],
      ["PostgreSQL, for each core that it has: cycles/s", amount(database), "reasoned: 1 s ÷ its CPU per cycle"],
      [
        "cores of instances for each core of PostgreSQL",
        amount(database / instance, 1),
        "reasoned: the one ÷ the other",
      ],
    );
  }
  return [{ title: "What it holds", note: "", head: ["", "figure", "how it is known"], rows }];
}
