/**
 * What a section found: tables to print, and the figures that are held against what is asked of them.
 */
export interface Table {
  readonly title: string;
  /** What the table does not say by itself, a paragraph. */
  readonly note: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** What is asked of a figure: it must not be on the wrong side of `must`, and is to be on the right side of `aim`. */
interface Demand {
  readonly what: string;
  readonly better: "less" | "more";
  readonly must: number;
  readonly aim?: number;
  readonly unit?: string;
  readonly decimals: number;
}

const demands = {
  cycle: {
    what: "CPU of a durable send + verify ÷ two calls of a connect-node no-op",
    better: "less",
    must: 1.8,
    aim: 1.5,
    decimals: 2,
  },
  grpc: {
    what: "the same over gRPC ÷ two calls of a no-op over gRPC",
    better: "less",
    must: 1.8,
    aim: 1.5,
    decimals: 2,
  },
  postgres: { what: "PostgreSQL, with its own CPU ÷ SQLite", better: "less", must: 2.2, aim: 1.8, decimals: 2 },
  instances: {
    what: "two instances on PostgreSQL ÷ one, CPU per cycle",
    better: "less",
    must: 1.3,
    aim: 1.15,
    decimals: 2,
  },
  lone: { what: "50 cycles/s, CPU per cycle ÷ the no-op's at 50/s", better: "less", must: 2.3, aim: 1.8, decimals: 2 },
  peer: { what: "better-auth (NORMAL) ÷ ours, CPU per cycle", better: "more", must: 9, aim: 12, decimals: 1 },
  groupCommit: {
    what: "group commit ÷ a transaction per call, cycles a second, both FULL",
    better: "more",
    must: 4,
    aim: 6,
    decimals: 1,
  },
  growth: { what: "CPU per cycle at the most rows ÷ at the fewest", better: "less", must: 1.1, aim: 1.05, decimals: 2 },
  growthPostgres: { what: "the same on PostgreSQL", better: "less", must: 1.25, aim: 1.1, decimals: 2 },
  scarce: {
    what: "CPU per cycle where the file is larger than its memory ÷ at the fewest rows",
    better: "less",
    must: 2,
    decimals: 2,
  },
  disk: {
    what: "disk per pending verification, with all its rows and indexes",
    better: "less",
    must: 600,
    aim: 450,
    unit: "B",
    decimals: 0,
  },
  diskWithKey: {
    what: "the same, of a send with an Idempotency-Key",
    better: "less",
    must: 600,
    aim: 450,
    unit: "B",
    decimals: 0,
  },
  heap: { what: "heap per pending verification", better: "less", must: 1, unit: "B", decimals: 1 },
  memory: { what: "resident memory per request in flight", better: "less", must: 20, unit: "KB", decimals: 1 },
  sendP50: { what: "send p50 at 1,000 cycles/s", better: "less", must: 1, aim: 0.5, unit: "ms", decimals: 2 },
  sendP99: { what: "send p99 at 1,000 cycles/s", better: "less", must: 15, aim: 5, unit: "ms", decimals: 1 },
  frames: {
    what: "pages that a cycle writes into SQLite's log, 32 connections",
    better: "less",
    must: 4,
    aim: 3,
    decimals: 1,
  },
  statements: { what: "statements of a cycle, 32 connections", better: "less", must: 9, aim: 6, decimals: 1 },
  loneFrames: { what: "pages of a lone cycle", better: "less", must: 3, decimals: 1 },
  loneStatements: { what: "statements of a lone cycle", better: "less", must: 7, decimals: 1 },
  commits: { what: "commits of a lone cycle", better: "less", must: 3, decimals: 1 },
  idleMemory: { what: "resident memory, idle", better: "less", must: 110, aim: 90, unit: "MB", decimals: 0 },
  loadedMemory: { what: "resident memory after load", better: "less", must: 200, aim: 160, unit: "MB", decimals: 0 },
  idleCpu: { what: "CPU a second, idle", better: "less", must: 2, unit: "ms", decimals: 1 },
  idleCpuAfterLoad: { what: "CPU a second, idle after load", better: "less", must: 2, unit: "ms", decimals: 1 },
  start: {
    what: "start to the first answer with the most rows",
    better: "less",
    must: 0.5,
    aim: 0.3,
    unit: "s",
    decimals: 2,
  },
  page: {
    what: "the slowest page of the console at p95, beside the most rows and 100 cycles/s",
    better: "less",
    must: 300,
    unit: "ms",
    decimals: 0,
  },
  pagePostgres: { what: "the same on PostgreSQL", better: "less", must: 300, unit: "ms", decimals: 0 },
  callsBeside: {
    what: "send p99 at 100 cycles/s beside an operator ÷ alone",
    better: "less",
    must: 2,
    decimals: 2,
  },
  callsBesidePostgres: { what: "the same on PostgreSQL", better: "less", must: 2, decimals: 2 },
} as const satisfies Record<string, Demand>;

export type FigureName = keyof typeof demands;
/** A figure with the least and the most of its rounds. */
export interface Spread {
  readonly value: number;
  readonly least: number;
  readonly most: number;
}

export type Figures = Partial<Record<FigureName, number | Spread>>;

export interface Findings {
  readonly tables: readonly Table[];
  readonly figures: Figures;
}

/** The figures beside what is asked of them. One that was not measured says so. */
export function verdicts(figures: Figures): Table {
  const rows = (Object.entries(demands) as [FigureName, Demand][]).map(([name, demand]) => {
    const { what, better, must, aim, unit, decimals } = demand;
    const figure = figures[name];
    const value = typeof figure === "object" ? figure.value : figure;
    const shown = (bare: number) => `${bare}${unit === undefined ? "" : ` ${unit}`}`;
    const limit = (bound: number | undefined) =>
      bound === undefined ? "" : `${better === "less" ? "≤" : "≥"} ${shown(bound)}`;
    if (value === undefined) return [what, "", limit(must), limit(aim), "not measured"];
    const spread = typeof figure === "object" ? ` (${range([figure.least, figure.most], decimals)})` : "";
    const meets = (bound: number) => (better === "less" ? value <= bound : value >= bound);
    const met = !meets(must) ? "**not met**" : aim !== undefined && meets(aim) ? "met, aim too" : "met";
    return [what, shown(Number(value.toFixed(decimals))) + spread, limit(must), limit(aim), met];
  });
  return {
    title: "What is asked",
    note: "In brackets the least and the most of the rounds. Ratios are of rounds of the same turn.",
    head: ["figure", "measured", "must", "aim", ""],
    rows,
  };
}

/** A table in Markdown, its columns aligned: figures to the right. */
export function markdown({ title, note, head, rows }: Table): string {
  const columns = head.map((name, i) => {
    const cells = rows.map((row) => row[i] ?? "");
    const width = Math.max(3, name.length, ...cells.map((cell) => cell.length));
    const isFigures = i > 0 && cells.every((cell) => /^([\d≤≥–]|$)/.test(cell));
    return { isFigures, pad: (cell: string) => (isFigures ? cell.padStart(width) : cell.padEnd(width)), width };
  });
  const line = (cells: readonly string[]) => `| ${columns.map(({ pad }, i) => pad(cells[i] ?? "")).join(" | ")} |`;
  const rule = line(
    columns.map(({ isFigures, width }) => (isFigures ? `${"-".repeat(width - 1)}:` : "-".repeat(width))),
  );
  const parts = [`### ${title}`, [line(head), rule, ...rows.map(line)].join("\n")];
  return [...parts, ...(note === "" ? [] : [note])].join("\n\n");
}

/** The least and the most of some figures. */
export function range(values: readonly number[], decimals = 0): string {
  return `${amount(Math.min(...values), decimals)}–${amount(Math.max(...values), decimals)}`;
}

/** A ratio with its spread. */
export function spreadText({ value, least, most }: Spread): string {
  return `${amount(value, 2)} (${range([least, most], 2)})`;
}

/** A figure with so many decimals, and thousands apart. */
export function amount(value: number, decimals = 0): string {
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}
