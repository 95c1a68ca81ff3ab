/**
 * `npm run bench`: the standing comparison. It prints tables with the machine and the day, and beside what is asked of the
 * service what was measured.
 *
 *   npm run bench -- --quick              less of everything, in a few minutes
 *   npm run bench -- --only growth        one section of those below; may be given several times
 *   npm run bench -- --only growth --rows 10000000       beside few pending verifications, and so many; may be given several times
 *   npm run bench -- --rounds 15          so many turns
 *   npm run bench -- --without peer       leaves out better-auth (which is installed from npm on demand), or postgres
 *   npm run bench -- --write              puts the tables into docs/capacity.md
 *
 * Servers and load are processes of their own, each pinned to a core where the machine allows it. Servers take turns within
 * one run, and medians are compared.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { misused as misusedOf, optionsOf } from "../command-line.ts";
import { bare } from "./sections/bare.ts";
import { compare, type Without } from "./sections/compare.ts";
import { efforts, type Effort } from "./effort.ts";
import { markdown, verdicts, type Figures, type Findings, type Table } from "./findings.ts";
import { counts } from "./sections/counts.ts";
import { growth } from "./sections/growth.ts";
import { latency } from "./sections/latency.ts";
import { openCodeBox } from "./drive/load.ts";
import { memory } from "./sections/memory.ts";
import { network } from "./sections/network.ts";
import { operators } from "./sections/operators.ts";
import { rest } from "./sections/rest.ts";
import { scarce } from "./sections/scarce.ts";
import { canPin, pinLoad } from "./drive/processes.ts";
import { tally } from "./drive/measure.ts";
import type { Place } from "./drive/prepared.ts";

type Section = (place: Place, effort: Effort, without: Without) => Promise<Findings>;

const sections: Readonly<Record<string, Section>> = {
  compare,
  bare,
  counts,
  latency,
  growth,
  scarce,
  memory,
  network,
  rest,
  operators,
};
const runMaxMs = 75 * 60_000;
const root = new URL("../../", import.meta.url).pathname;
const marks = ["<!-- what follows is written by npm run bench -->", "<!-- up to here -->"] as const;

const misused = (trouble: string) => misusedOf(import.meta.filename, trouble);
const { values } = optionsOf(import.meta.filename, {
  options: {
    only: { type: "string", multiple: true },
    without: { type: "string", multiple: true, default: [] },
    rows: { type: "string", multiple: true },
    rounds: { type: "string" },
    quick: { type: "boolean", default: false },
    smoke: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const chosenEffort: Effort = values.smoke ? efforts.smoke : values.quick ? efforts.quick : efforts.full;
const rows = values.rows?.map(Number) ?? chosenEffort.sizes.slice(1);
if (!rows.every((each) => each > 0)) misused("--rows is a number of pending verifications");
const turns = Number(values.rounds ?? chosenEffort.rounds);
if (!(turns >= 1)) misused("--rounds is a number of turns");
const sizes = [...chosenEffort.sizes.slice(0, 1), ...rows].toSorted((a, b) => a - b);
const effort: Effort = { ...chosenEffort, sizes, rounds: turns };
const chosen = values.only ?? Object.keys(sections);
const without = { peer: values.without.includes("peer"), postgres: values.without.includes("postgres") };
const isWhole =
  values.only === undefined &&
  values.without.length === 0 &&
  values.rows === undefined &&
  values.rounds === undefined &&
  chosenEffort === efforts.full;
if (values.write && !isWhole)
  misused("--write takes the whole run, without --only, --without, --rows, --rounds or --quick");
const unknown = chosen.find((name) => sections[name] === undefined);
if (unknown !== undefined) misused(`there is no section ${unknown}, only ${Object.keys(sections).join(", ")}`);

const tables: Table[] = [];
const figures: Figures = {};
const failed: string[] = [];
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  process.once(signal, () => {
    console.error(`ended by ${signal}: nothing was measured to the end`);
    process.exit(code);
  });
}
setTimeout(() => {
  console.log(report());
  console.error(`not done after ${runMaxMs / 60_000} minutes: the rest was not measured`);
  process.exit(1);
}, runMaxMs).unref();
const folder = mkdtempSync(join(tmpdir(), "otpd-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const [busy = 0] = loadavg();
const codes = await openCodeBox(join(folder, "codes.sock"));
if (!values.smoke) pinLoad();
for (const name of chosen) {
  const startMs = performance.now();
  // Each begins with nothing there, as alone.
  const its = join(folder, name);
  mkdirSync(its);
  try {
    const found = await sections[name]?.({ folder: its, codes }, effort, without);
    tables.push(...(found?.tables ?? []));
    Object.assign(figures, found?.figures);
    rmSync(its, { recursive: true });
  } catch (error) {
    // What the others find is worth having.
    console.error(error);
    failed.push(name);
  }
  console.error(`${name}: ${((performance.now() - startMs) / 1_000).toFixed(0)} s`);
}
console.log(report());
if (failed.length > 0) console.error(`not measured: ${failed.join(", ")}`);
else if (values.write) write(report());
process.exit(failed.length > 0 ? 1 : 0);

/** What was measured so far. */
function report(): string {
  return [heading(), ...[verdicts(figures), ...tables].map(markdown)].join("\n\n");
}

/** Where and when it was measured, and what else the machine did. */
function heading(): string {
  const { rounds, roundMs } = effort;
  const memoryGb = (totalmem() / 1e9).toFixed(0);
  const pinned = canPin && !values.smoke ? "servers pinned to one core, the load to another" : "nothing pinned";
  return [
    `Measured on ${new Date().toISOString().slice(0, 10)}: ${cpus().length} × ${cpus()[0]?.model ?? "unknown CPU"}, ${memoryGb} GB,`,
    `Node ${process.versions.node}; ${pinned}; medians of ${rounds} rounds of ${roundMs / 1_000} s, in`,
    `which the servers took turns. The load average before the run was ${busy.toFixed(1)}: above 0.5 the machine had other work, and`,
    `figures, ratios among them, are worth less. ${tally.stood} of ${tally.rounds} rounds stood: in the others, warm-ups among them, other processes`,
    "took more than a seventh of a core.",
  ].join("\n");
}

function write(text: string): void {
  const path = join(root, "docs/capacity.md");
  const [before, old] = readFileSync(path, "utf8").split(`${marks[0]}\n`);
  const after = old?.split(marks[1])[1];
  if (after === undefined) throw new Error(`${path} lacks the marks between which the tables stand`);
  writeFileSync(path, `${before}${marks[0]}\n\n${text}\n\n${marks[1]}${after}`);
  execFileSync(join(root, "node_modules/.bin/oxfmt"), [path], { stdio: "inherit" });
}
