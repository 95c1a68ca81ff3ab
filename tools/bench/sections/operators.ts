/**
 * Section "operators": what a page of the console takes beside callers, over databases that are months old; and what callers
 * wait for more while somebody goes through its pages.
 */
import type { PostgresServer } from "../../../test/support/databases/postgres.ts";
import { liveIn, type LivedIn } from "../drive/lived-in.ts";
import { driveClosed, driveOpen } from "../drive/load.ts";
import { measureRound, medianOf, ratioOf, type Round } from "../drive/measure.ts";
import { prepare, prepareSqlite, type Place } from "../drive/prepared.ts";
import { pinLoad, startServer, type Server } from "../drive/processes.ts";
import { postgresTarget, restLane, startDatabase, startService, type Target } from "../drive/targets.ts";
import type { Effort } from "../effort.ts";
import { amount, spreadText, type Figures, type Findings, type Table } from "../findings.ts";
import type { OperatorOptions, Took } from "../servers/operator.ts";
import type { Without } from "./compare.ts";

const perSecond = 100;
/** How long a round is, in those of the slowest rate: an operator opens few pages in one of them. */
const roundsLong = 2;

/** A server with an operator who can be told to go through its pages. */
interface Manned {
  readonly name: string;
  readonly lived: LivedIn;
  readonly target: Target;
  readonly operator: Server;
  close(): Promise<void>;
}

export async function operators(place: Place, effort: Effort, without: Pick<Without, "postgres">): Promise<Findings> {
  const count = effort.sizes.at(-1) ?? 0;
  let postgres: PostgresServer | undefined;
  try {
    const sqlite = await liveIn(await prepareSqlite(place, "operators"), count);
    const measured = [await measureOne(place, effort, { name: "SQLite", lived: sqlite })];
    if (!without.postgres) {
      postgres = await startDatabase();
      const lived = await liveIn(await prepare(await postgres.createDatabase()), count);
      measured.push(await measureOne(place, effort, { name: "PostgreSQL", lived, postgres }));
    }
    return {
      tables: [
        ...measured.map((each) => pageTable(each)),
        callTable(measured),
        { ...rowsTable(measured), title: `What was in these databases` },
      ],
      figures: figuresOf(measured),
    };
  } finally {
    await postgres?.stop();
  }
}

/** A database that was filled, and where it is. */
interface Filled {
  readonly name: string;
  readonly lived: LivedIn;
  readonly postgres?: PostgresServer;
}

/** Measures one, with nothing of the other beside it. */
async function measureOne(place: Place, effort: Effort, filled: Filled): Promise<Measured> {
  const each = await manned(place, effort, filled);
  const found = await measure(each, effort);
  await each.close();
  return found;
}

async function manned(place: Place, { rates }: Effort, { name, lived, postgres }: Filled): Promise<Manned> {
  const server = await startService(place, lived, {}, { OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" });
  const port = await server.ask<number>("admin");
  const { url: _url, key: _key, rows: _rows, ...asked } = lived;
  // A person in a hurry; a short run has no time for it.
  const paceMs = Math.min(200, (rates[0]?.roundMs ?? 0) / 50);
  const options: OperatorOptions = { ...asked, port, paceMs };
  const operator = await startServer(place.folder, "operator.ts", [JSON.stringify(options)]);
  pinLoad(operator.pid);
  const service: Target =
    postgres === undefined
      ? {
          name,
          durability: "power loss",
          bill: { service: [server.pid] },
          open: (lanes) => Array.from({ length: lanes }, () => restLane(server, lived.key, place.codes)),
          close: () => server.stop(),
        }
      : postgresTarget(place, name, postgres, lived, [server]);
  return {
    name,
    lived,
    operator,
    // Not of the callers' bill, and none of the machine's other work either.
    target: { ...service, bill: { ...service.bill, operator: [operator.pid] } },
    async close() {
      await operator.stop();
      await server.stop();
    },
  };
}

/** What a page took where it was answered, and how often it was not. */
interface Opened {
  readonly ms: readonly number[];
  readonly failed: number;
}

interface Measured {
  readonly name: string;
  readonly lived: LivedIn;
  readonly alone: readonly Round[];
  readonly beside: readonly Round[];
  readonly took: ReadonlyMap<string, Opened>;
}

/** In turns: callers alone, and beside an operator. */
async function measure({ name, lived, target, operator }: Manned, effort: Effort): Promise<Measured> {
  const { rounds, lanes, warmUpMs, rates } = effort;
  const roundMs = roundsLong * (rates[0]?.roundMs ?? 0);
  const drive = () => measureRound(target, lanes, (open) => driveOpen(open, perSecond, roundMs));
  await measureRound(target, effort.connections, (open) => driveClosed(open, warmUpMs));
  const goThrough = async () => {
    operator.tell("begin");
    const round = await drive();
    return { round, took: await operator.ask<Took>("end") };
  };
  await goThrough();
  const alone: Round[] = [];
  const beside: { readonly round: Round; readonly took: Took }[] = [];
  for (let turn = 0; turn < rounds; turn += 1) {
    alone.push(await drive());
    beside.push(await goThrough());
  }
  const stood = beside.filter(({ round }) => round.stood);
  const took = new Map<string, Opened>();
  for (const each of stood.length > 0 ? stood : beside) {
    for (const [page, { ms, failed }] of Object.entries(each.took)) {
      const known = took.get(page);
      took.set(page, { ms: [...(known?.ms ?? []), ...ms], failed: (known?.failed ?? 0) + failed });
    }
  }
  return { name, lived, alone, beside: beside.map(({ round }) => round), took };
}

function figuresOf(measured: readonly Measured[]): Figures {
  const [sqlite, postgres] = ["SQLite", "PostgreSQL"].map((name) => measured.find((each) => each.name === name));
  return {
    ...(sqlite && { page: slowest(sqlite), callsBeside: callsRatio(sqlite) }),
    ...(postgres && { pagePostgres: slowest(postgres), callsBesidePostgres: callsRatio(postgres) }),
  };
}

/** One that is not answered takes for ever. */
const slowest = ({ took }: Measured) => Math.max(...[...took.values()].map((all) => share(all, 0.95)));
const callsRatio = ({ alone, beside }: Measured) => ratioOf(beside, alone, ({ send }) => send.p99);

function share({ ms, failed }: Opened, of: number): number {
  const sorted = ms.toSorted((a, b) => a - b);
  return sorted[Math.min(ms.length + failed - 1, Math.floor((ms.length + failed) * of))] ?? Number.POSITIVE_INFINITY;
}

function pageTable({ name, took }: Measured): Table {
  return {
    title: `Pages of the console, on ${name}`,
    note: [
      `Until the last of a page's calls was answered, beside ${perSecond} cycles a second, over the rows below. A page is opened`,
      "at the soonest 200 ms after the one before.",
    ].join("\n"),
    head: ["page", "p50 ms", "p95 ms", "most ms", "times", "failed"],
    rows: [...took].map(([page, all]) => [
      page,
      amount(share(all, 0.5)),
      amount(share(all, 0.95)),
      amount(Math.max(...all.ms)),
      amount(all.ms.length + all.failed),
      amount(all.failed),
    ]),
  };
}

function callTable(measured: readonly Measured[]): Table {
  const row = (name: string, rounds: readonly Round[], alone: readonly Round[]) => [
    name,
    amount(
      medianOf(rounds, ({ send }) => send.p50),
      1,
    ),
    amount(
      medianOf(rounds, ({ send }) => send.p99),
      1,
    ),
    amount(
      medianOf(rounds, ({ verify }) => verify.p50),
      1,
    ),
    amount(
      medianOf(rounds, ({ verify }) => verify.p99),
      1,
    ),
    spreadText(ratioOf(rounds, alone, ({ send }) => send.p99)),
    amount(medianOf(rounds, ({ parts }) => (parts["service"] ?? 0) + (parts["PostgreSQL"] ?? 0))),
  ];
  return {
    title: `${perSecond} cycles a second beside an operator`,
    note: "Rounds alone and beside an operator take turns. CPU is of the service, and of PostgreSQL where it is there.",
    head: [
      "callers",
      "send p50 ms",
      "send p99 ms",
      "verify p50 ms",
      "verify p99 ms",
      "send p99 ÷ alone",
      "CPU µs per cycle",
    ],
    rows: measured.flatMap(({ name, alone, beside }) => [
      row(`alone, ${name}`, alone, alone),
      row(`beside an operator, ${name}`, beside, alone),
    ]),
  };
}

function rowsTable(measured: readonly Measured[]): Omit<Table, "title"> {
  const tables = Object.keys(measured[0]?.lived.rows ?? {});
  return {
    note: "Rows at the beginning. Verifications are of three days, sums of 13 months, the audit of as long.",
    head: ["table", ...measured.map(({ name }) => name)],
    rows: tables.map((table) => [table, ...measured.map(({ lived }) => amount(lived.rows[table] ?? 0))]),
  };
}
