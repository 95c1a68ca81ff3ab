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
  const env = cleanEnv({ OTP_SEND_WAIT_MS: "0", OTP_LOG_LEVEL: "warn" });
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

async function measure(name: string, plan: Pick<LoadPlan, "loops" | "streams">, seconds: number): Promise<number> {
  const load = startLoad({ port, key, ...plan });
  pin(load.pid, 1);
  await load.started;
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

test("ten times the callers get at least 80 % of the most that can be served, and it is there again at once", async () => {
  await measure("warm-up", { loops: { rest: 32 } }, 3);
  const restingMiB = residentMiB(child.pid);
  const most = await measure("32 connections", { loops: { rest: 32 } }, 5);
  const shares: number[] = [];
  const overloads: [string, Pick<LoadPlan, "loops" | "streams">][] = [
    ["320 connections", { loops: { rest: 320 } }],
    ["2,000 connections", { loops: { rest: 2_000 } }],
    ["4,000 streams on 40 connections", { loops: { grpc: 4_000 }, streams: 100 }],
  ];
  for (const [name, plan] of overloads) {
    const goodput = await measure(name, plan, 8);
    console.log(`${name}: ${((100 * goodput) / most).toFixed(0)} % of the most`);
    shares.push(goodput / most);
  }
  const after = await measure("32 connections again", { loops: { rest: 32 } }, 5);
  console.log(`afterwards: ${((100 * after) / most).toFixed(0)} % of the most`);
  expect(residentMiB(child.pid)).toBeLessThan(restingMiB + 250);
  expect(after / most).toBeGreaterThan(0.8);
  expect(Math.min(...shares)).toBeGreaterThan(0.8);
});
