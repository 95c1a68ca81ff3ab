/**
 * Overload, measured: the real process on one core, first with as many callers as it serves best, then with ten times as
 * many that come again at once whenever they are refused. What it serves must not collapse. Counted is what is served for
 * a second of the server's own CPU time: in overload it has no other, and a busy machine does not distort it.
 */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { LoadPlan, LoadReport } from "../support/load.ts";
import { startLoad } from "../support/loading.ts";
import { cleanEnv, residentMiB } from "../support/process.ts";
import { temporaryFolder } from "../support/world.ts";

const folder = temporaryFolder();
const service = fileURLToPath(new URL("../bench/service.ts", import.meta.url));
let child: ChildProcess;
let port: number;
let key: string;
beforeAll(async () => {
  // The service as it is measured elsewhere: its provider accepts at once, and hands over codes that nobody needs here.
  const codes = createServer((socket) => void socket.resume()).listen(join(folder, "codes"));
  await once(codes, "listening");
  const env = cleanEnv({ OTP_SEND_WAIT_MS: "0", OTP_LOG_LEVEL: "warn", OTP_KEY_LIMIT: "none" });
  const args = [service, join(folder, "otp.db"), join(folder, "codes")];
  child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  while (!/^port \d+$/m.test(output)) output += String((await once(child.stdout as Readable, "data"))[0]);
  port = Number(/^port (\d+)$/m.exec(output)?.[1]);
  key = /otp_live_\w+/.exec(output)?.[0] ?? "";
  pin(child.pid, 0);
  codes.unref();
});
afterAll(async () => {
  child.kill();
  await once(child, "exit");
  rmSync(folder, { recursive: true, force: true });
});

const rampMs = 4_000;

function pin(pid: number | undefined, core: number): void {
  try {
    execFileSync("taskset", ["-acp", `${core}`, `${pid}`], { stdio: "ignore" });
  } catch {
    console.warn("taskset is not there: server and load share all cores");
  }
}

/** User and system time of a process, in seconds. */
function cpuSecondsOf(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const sum = ({ ok }: LoadReport) => Object.values(ok).reduce((total, count) => total + count, 0);

type Plan = Pick<LoadPlan, "loops" | "streams">;

async function measure(name: string, plan: Plan, seconds: number): Promise<number> {
  const load = startLoad({ port, key, ...plan });
  pin(load.pid, 1);
  await load.started;
  // Connections are made first, which costs both sides more than a call.
  await new Promise((resolve) => setTimeout(resolve, rampMs));
  load.mark();
  const cpuBefore = cpuSecondsOf(child.pid);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
  const mostMiB = residentMiB(child.pid);
  const report = await load.end();
  const cpuSeconds = cpuSecondsOf(child.pid) - cpuBefore;
  const goodput = sum(report) / cpuSeconds;
  console.log(
    `${name}: ${goodput.toFixed(0)} served for a second of CPU, ${(sum(report) / report.seconds).toFixed(0)} a second (p50 ${report.okMs.p50} ms, p99 ${report.okMs.p99} ms), others ${JSON.stringify(report.counts)} (p50 ${report.othersMs.p50} ms, p99 ${report.othersMs.p99} ms), ${mostMiB.toFixed(0)} MiB`,
  );
  const strange = Object.keys(report.counts).filter(
    (outcome) => !/^(STORE_UNAVAILABLE|UNAVAILABLE|DEADLINE|status 200 grpc 4)$/.test(outcome),
  );
  expect(strange).toEqual([]);
  return goodput;
}

const rest32: Plan = { loops: { rest: 32 } };
const grpc32: Plan = { loops: { grpc: 32 } };

/** What is served in overload, as a share of the most: of what is served to few callers just before it and just after. */
const overloads: { name: string; plan: Plan; best: Plan; shareMin: number }[] = [
  { name: "ten times the connections", plan: { loops: { rest: 320 } }, best: rest32, shareMin: 0.8 },
  { name: "ten times the connections by gRPC", plan: { loops: { grpc: 320 } }, best: grpc32, shareMin: 0.8 },
  // Far beyond what the house holds: most are refused, and come again at once.
  { name: "2,000 connections", plan: { loops: { rest: 2_000 } }, best: rest32, shareMin: 0.6 },
  { name: "4,000 streams by gRPC", plan: { loops: { grpc: 4_000 }, streams: 100 }, best: grpc32, shareMin: 0.6 },
];

test.each(overloads)("$name leave at least $shareMin of the most, which is there again at once", async (overload) => {
  const { name, plan, best, shareMin } = overload;
  await measure("warm-up", best, 2);
  const before = await measure("few callers", best, 8);
  const goodput = await measure(name, plan, 12);
  const after = await measure("few callers again", best, 8);
  const share = goodput / ((before + after) / 2);
  console.log(
    `${name}: ${(100 * share).toFixed(0)} % of the most; afterwards ${((100 * after) / before).toFixed(0)} %`,
  );
  expect(share).toBeGreaterThan(shareMin);
  // What lives is 30 MiB; the rest is what the collector has not felt a need to give back.
  expect(residentMiB(child.pid)).toBeLessThan(768);
});
