/**
 * `npm run soak:small`: an hour on a small machine. One core, 512 MiB, a million pending verifications, 50 cycles a second by
 * a webhook provider that takes 50 ms; a restart, two sweeps and two backups under way. It fails where anything was lost, or where a
 * figure is not what is asked.
 *
 *   npm run soak:small -- --minutes 8 --rows 100000      a shorter trial
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { confine } from "../bench/drive/confined.ts";
import { fromPackage, startInstalled, type Installed, type Started } from "../bench/drive/installed.ts";
import { openCodeBox } from "../bench/drive/load.ts";
import { percentiles } from "../bench/drive/measure.ts";
import { lapseSome, multiply } from "../bench/drive/preload.ts";
import { pinLoad, residentBytes, startServer } from "../bench/drive/processes.ts";
import { makeReal, type Preloaded } from "../bench/drive/real-sends.ts";
import { productionEnv, type Place } from "../bench/drive/prepared.ts";
import { amount, markdown } from "../bench/findings.ts";
import type { ReceiverOptions } from "../bench/servers/receiver.ts";
import { misused, optionsOf } from "../command-line.ts";
import { openCustomers, type Customers } from "./customers.ts";

const { values } = optionsOf(import.meta.filename, {
  options: { minutes: { type: "string", default: "60" }, rows: { type: "string", default: "1000000" } },
});
const [minutes, rows] = [Number(values.minutes), Number(values.rows)];
if (!(minutes > 0 && rows >= 1_000)) {
  misused(import.meta.filename, "--minutes is more than 0, and --rows 1000 or more");
}

const perSecond = 50;
const memoryBytesMax = 512 * 1_048_576;
/** The provider's own time. */
const takesMs = 50;
const [connections, realSends] = [32, 1_000];
/**
 * When each thing happens, as a part of the whole. The slope of memory is that of what comes after `fromPart`: what a first sweep or
 * backup takes is kept for the next, and what the second takes beside it would come with each.
 */
const [restartPart, fromPart, sweepParts, backupParts] = [1 / 12, 1 / 3, [1 / 8, 5 / 12], [5 / 24, 7 / 12]];
/** What lapses at once. */
const lapsingPart = 1 / 10;
const asked = { sendP99Ms: 25, residentMb: 200, slopeMbPerHour: 2 };

interface Sample {
  readonly hours: number;
  readonly mb: number;
}

const folder = mkdtempSync(join(tmpdir(), "otpd-small-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
// The servers end with this process.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
const codes = await openCodeBox(join(folder, "codes.sock"));
const place: Place = { folder, codes };
pinLoad();
const database = await fill();
const receiverOptions: ReceiverOptions = { codes: codes.path, takesMs };
const receiver = await startServer(folder, "receiver.ts", [JSON.stringify(receiverOptions)]);
pinLoad(receiver.pid);
const confined = confine(memoryBytesMax);
const built = fromPackage(place);
const installed: Installed = { ...built, nodeArgs: [...built.nodeArgs, ...confined.nodeArgs], prefix: confined.prefix };
const more = { OTP_WEBHOOK_URL: `http://127.0.0.1:${receiver.port}/` };
let service: Started = await start();
const customers = openCustomers({ key: database.key, codes, port: () => service.port, lanes: 256 });

const samples: Sample[] = [];
const startMs = performance.now();
const sampling = setInterval(sample, 1_000);
const telling = setInterval(() => {
  const { done, retries, faults, sendMs } = customers.soFar();
  const minute = amount((performance.now() - startMs) / 60_000, 1);
  const { p50, p99 } = percentiles(sendMs);
  const sends = `send ${amount(p50 - takesMs, 1)} / ${amount(p99 - takesMs, 1)} ms at p50 / p99 beyond the provider's`;
  const told = `${amount(done)} cycles, ${retries} calls made again, ${faults.length} faults, ${amount(samples.at(-1)?.mb ?? 0)} MB`;
  console.error(`${minute} min: ${told}, ${sends}`);
}, 30_000);
const events = Promise.all([
  at(restartPart, "restarted", restart),
  ...sweepParts.map((part) => at(part, `swept ${amount(rows * lapsingPart)} that lapsed`, () => swept(database.path))),
  ...backupParts.map((part) => at(part, "backed up", () => backUp(installed))),
]);
const [made, happened] = await Promise.all([customers.run(perSecond, partMs(1)), events]);
clearInterval(sampling);
clearInterval(telling);
const firstAnswerMs = service.firstAnswerMs;
await restart();
const lost = await customers.countLost();
await service.stop();
await receiver.stop();
const peak = confined.peakBytes();
confined.end();
process.exitCode = report(made, lost) ? 0 : 1;
process.exit();

/** The rows that are there before anybody calls; a part of them lapses later. */
async function fill(): Promise<Preloaded> {
  const { real } = await makeReal(place, { connections, realSends });
  const path = join(folder, "small.db");
  multiply(real.path, path, real.count, rows);
  for (const part of sweepParts) lapseSome(path, Math.round(rows * lapsingPart), Date.now() + partMs(part));
  return { ...real, path, url: `file:${path}`, count: rows };
}

function partMs(part: number): number {
  return part * minutes * 60_000;
}

function start(): Promise<Started> {
  return startInstalled(place, installed, database, { more });
}

async function restart(): Promise<void> {
  await service.stop();
  service = await start();
}

/** Resolves once all that lapsed is noted. */
async function swept(path: string): Promise<void> {
  const { inDatabase } = await import("../../test/support/databases/rows.ts");
  const left = () =>
    inDatabase(path, (db) =>
      db
        .prepare(`SELECT count(*) FROM verifications WHERE end_ms IS NULL AND expire_ms < ?`)
        .pluck()
        .get(Date.now() - 60_000),
    );
  await sleep(60_000);
  while (Number(left()) > 0) await sleep(1_000);
}

async function backUp({ file, nodeArgs, prefix = [] }: Installed): Promise<void> {
  rmSync(join(folder, "backup.db"), { force: true });
  const [program, ...args] = [...prefix, process.execPath, ...nodeArgs, file, "backup", join(folder, "backup.db")];
  await promisify(execFile)(program, args, { cwd: folder, env: { ...process.env, ...productionEnv(database.url) } });
}

async function at(part: number, what: string, act: () => Promise<void>): Promise<string> {
  await sleep(startMs + partMs(part) - performance.now());
  const fromMs = performance.now();
  await act();
  console.error(what);
  return `${what} after ${amount((fromMs - startMs) / 60_000, 1)} minutes, in ${amount((performance.now() - fromMs) / 1_000, 1)} s`;
}

function sample(): void {
  try {
    const mb = residentBytes(service.pid) / 1e6;
    if (mb > 0) samples.push({ hours: (performance.now() - startMs) / 3_600_000, mb });
  } catch {
    // It is being started again.
  }
}

/** The slope of a line through samples, by least squares. */
function slopeOf(all: readonly Sample[]): number {
  const mean = (figure: (each: Sample) => number) => all.reduce((sum, each) => sum + figure(each), 0) / all.length;
  const [hours, mb] = [mean((each) => each.hours), mean((each) => each.mb)];
  const covered = all.reduce((sum, each) => sum + (each.hours - hours) ** 2, 0);
  return all.reduce((sum, each) => sum + (each.hours - hours) * (each.mb - mb), 0) / covered;
}

/** Prints what was found. False where something asked is not so. */
function report(
  { done, sendMs, verifyMs, retries, faults }: Awaited<ReturnType<Customers["run"]>>,
  lostIds: number,
): boolean {
  const [send, verify] = [percentiles(sendMs), percentiles(verifyMs)];
  const later = samples.filter(({ hours }) => hours * 3_600_000 >= partMs(fromPart));
  const most = Math.max(...samples.map(({ mb }) => mb));
  const slope = slopeOf(later);
  const figures: readonly (readonly [what: string, measured: string, asked: string, isMet: boolean])[] = [
    [
      "cycles",
      amount(done),
      amount(Math.floor(perSecond * minutes * 60)),
      done === Math.floor(perSecond * minutes * 60),
    ],
    ["verifications that are not as they were answered", amount(lostIds), "0", lostIds === 0],
    ["answers or receipts that are wrong", amount(faults.length), "0", faults.length === 0],
    [
      "send p99 beyond the provider's time, ms",
      amount(send.p99 - takesMs, 1),
      `≤ ${asked.sendP99Ms}`,
      send.p99 - takesMs <= asked.sendP99Ms,
    ],
    ["resident memory at most, MB", amount(most), `≤ ${asked.residentMb}`, most <= asked.residentMb],
    [
      `its slope over the last ${amount(minutes * (1 - fromPart))} minutes, MB an hour`,
      amount(slope, 1),
      `≤ ${asked.slopeMbPerHour}`,
      slope <= asked.slopeMbPerHour,
    ],
  ];
  const table = {
    title: `${minutes} minutes on one core, ${confined.how}: ${amount(rows)} rows, ${perSecond} cycles a second`,
    note: [
      `${happened.join("; ")}; calls made again ${amount(retries)} times. Send p50 ${amount(send.p50 - takesMs, 1)} ms beyond the provider's ${takesMs}, verify`,
      `p50 ${amount(verify.p50, 1)} ms, p99 ${amount(verify.p99, 1)} ms. Start to the first answer ${amount(firstAnswerMs)} ms.`,
      peak === undefined ? "" : `With the file cache ${amount(peak / 1e6)} MB at most.`,
    ].join("\n"),
    head: ["figure", "measured", "asked", ""],
    rows: figures.map(([what, measured, limit, isMet]) => [what, measured, limit, isMet ? "met" : "**not met**"]),
  };
  console.log(markdown(table));
  for (const fault of faults.slice(0, 10)) console.error(fault);
  return figures.every(([, , , isMet]) => isMet);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}
