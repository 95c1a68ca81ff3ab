/**
 * Section "counts": what a cycle asks of its database, in statements, commits and pages, when 32 calls are under way and when
 * it is alone. It is counted and not timed, so another process on the machine changes it little.
 */
import type { PostgresServer } from "../../../test/support/databases/postgres.ts";
import { driveClosed, type Lane } from "../drive/load.ts";
import type { Server } from "../drive/processes.ts";
import { prepare, prepareSqlite, type Place } from "../drive/prepared.ts";
import { postgresTarget, sqliteTarget, startDatabase, startService, type Target } from "../drive/targets.ts";
import { watchWal, type WalCounts, type WalWatch } from "../drive/wal.ts";
import type { Effort } from "../effort.ts";
import { amount, type Findings, type Table } from "../findings.ts";
import type { Counted } from "../servers/counting.ts";
import type { Without } from "./compare.ts";

interface PerCycle {
  readonly kind: string;
  readonly statements: number;
  /** Transactions, whether they wrote anything or not. */
  readonly transactions: number;
  readonly perTransaction: number;
  readonly wal: WalCounts | undefined;
  /** How many pages of each table or index a cycle writes. */
  readonly pages: readonly (readonly [name: string, times: number])[];
  /** How often a cycle runs each statement. */
  readonly byText: readonly (readonly [text: string, times: number])[];
}

export async function counts(place: Place, effort: Effort, without: Without): Promise<Findings> {
  const prepared = await prepareSqlite(place, "counts");
  const sqlite = await sqliteTarget(place, "otpd on SQLite", prepared);
  const onSqlite = await countBoth(sqlite, sqlite.server, effort, prepared.url.slice("file:".length));
  await sqlite.close();
  const onPostgres = without.postgres ? [] : await countPostgres(place, effort);
  const [busy, lone] = onSqlite;
  return {
    tables: [
      countsTable([...onSqlite, ...onPostgres]),
      pagesTable(onSqlite),
      statementsTable([busy, ...onPostgres.slice(0, 1)]),
    ],
    figures: {
      statements: busy.statements,
      loneStatements: lone.statements,
      ...(busy.wal && lone.wal
        ? { frames: busy.wal.frames, loneFrames: lone.wal.frames, commits: lone.wal.commits }
        : {}),
    },
  };
}

async function countPostgres(place: Place, effort: Effort): Promise<PerCycle[]> {
  let postgres: PostgresServer | undefined;
  try {
    postgres = await startDatabase();
    const prepared = await prepare(await postgres.createDatabase());
    const server = await startService(place, prepared);
    const target = postgresTarget(place, "otpd on PostgreSQL", postgres, prepared, [server]);
    const both = await countBoth(target, server, effort);
    await server.stop();
    return both;
  } finally {
    await postgres?.stop();
  }
}

/** Counts with as many calls under way as the closed loop has, and with one. `path` is that of a SQLite file. */
async function countBoth(
  target: Target,
  server: Server,
  { connections, roundMs, warmUpMs }: Effort,
  path?: string,
): Promise<[busy: PerCycle, lone: PerCycle]> {
  const drive = async (count: number, ms: number) => {
    const lanes = target.open(count);
    const wal = path === undefined ? undefined : await watchWritten(path, lanes);
    const before = wal?.counts();
    server.tell("count");
    const { done } = await driveClosed(lanes, ms);
    const found = await server.ask<Counted>("counted");
    const after = wal?.counts();
    const pages = before && after ? wal?.pagesOf(before, after) : undefined;
    wal?.end();
    for (const lane of lanes) lane.close();
    const kind = count === 1 ? "one connection" : `${count} connections`;
    return perCycle(`${target.name}, ${kind}`, done, found, { before, after, pages });
  };
  await drive(connections, warmUpMs);
  return [await drive(connections, roundMs), await drive(1, roundMs)];
}

/** Watches a log once there is something in it. */
async function watchWritten(path: string, [lane]: readonly Lane[]): Promise<WalWatch> {
  for (;;) {
    await lane?.cycle(performance.now());
    const watch = watchWal(path);
    if (watch !== undefined) return watch;
  }
}

function perCycle(
  kind: string,
  done: number,
  { statements, begins, byText }: Counted,
  {
    before,
    after,
    pages,
  }: Record<"before" | "after", WalCounts | undefined> & { readonly pages: ReadonlyMap<string, number> | undefined },
): PerCycle {
  const isWhole = before !== undefined && after !== undefined;
  return {
    kind,
    statements: statements / done,
    transactions: begins / done,
    perTransaction: statements / begins,
    wal: isWhole
      ? { commits: (after.commits - before.commits) / done, frames: (after.frames - before.frames) / done }
      : undefined,
    pages: [...(pages ?? [])].map(([name, count]) => [name, count / done]),
    byText: Object.entries(byText).map(([text, times]) => [text, times / done]),
  };
}

function countsTable(all: readonly PerCycle[]): Table {
  return {
    title: "What a cycle asks of its database",
    note: [
      "Statements are those that the service gives to its database driver, BEGIN and COMMIT among them. Commits are transactions",
      "that wrote; frames are the pages of 2 KB that they wrote into SQLite's log, as the log's own index counts them.",
    ].join("\n"),
    head: ["", "statements", "transactions", "statements in each", "commits", "frames"],
    rows: all.map(({ kind, statements, transactions, perTransaction, wal }) => [
      kind,
      amount(statements, 1),
      amount(transactions, 2),
      amount(perTransaction, 1),
      wal === undefined ? "" : amount(wal.commits, 2),
      wal === undefined ? "" : amount(wal.frames, 1),
    ]),
  };
}

function pagesTable([busy, lone]: readonly [PerCycle, PerCycle]): Table {
  const [ofBusy, ofLone] = [new Map(busy.pages), new Map(lone.pages)];
  const names = [...new Set([...ofBusy.keys(), ...ofLone.keys()])];
  const worth = (name: string) => (ofBusy.get(name) ?? 0) + (ofLone.get(name) ?? 0);
  return {
    title: "Whose pages a cycle writes into SQLite's log",
    note: "Of each table or index; an index has its table's name first.",
    head: ["", busy.kind, lone.kind],
    rows: names
      .filter((name) => worth(name) >= timesMin)
      .toSorted((a, b) => worth(b) - worth(a))
      .map((name) => [name, amount(ofBusy.get(name) ?? 0, 2), amount(ofLone.get(name) ?? 0, 2)]),
  };
}

/** Rarer ones are of timers. */
const timesMin = 0.05;
const textCharsMax = 60;

function statementsTable(all: readonly PerCycle[]): Table {
  return {
    title: "The statements of a cycle",
    note: "",
    head: ["", "statement", "times"],
    rows: all.flatMap(({ kind, byText }) =>
      byText
        .filter(([, times]) => times >= timesMin)
        .toSorted(([, a], [, b]) => b - a)
        .map(([text, times]) => [kind, shortened(text), amount(times, 2)]),
    ),
  };
}

/** A statement's beginning, as a cell of a table. */
function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").replaceAll("|", "\\|");
  return line.length <= textCharsMax ? line : `${line.slice(0, textCharsMax - 1)}…`;
}
