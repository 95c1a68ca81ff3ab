/**
 * Overload, measured: the real process on one core, first with as many callers as it serves best, then with ten times as
 * many that come again at once whenever they are refused. What it serves must not collapse. Counted is what is served for
 * a second of the server's own CPU time: in overload it has no other, and a busy machine does not distort it.
 */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cpuMicros, pinLoad, type Server } from "../../tools/bench/drive/processes.ts";
import { prepareSqlite } from "../../tools/bench/drive/prepared.ts";
import { startService } from "../../tools/bench/drive/targets.ts";
import type { LoadPlan, LoadReport } from "../support/clients/load.ts";
import { startLoad } from "../support/clients/loading.ts";
import { residentMiB } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

const folder = temporaryFolder();
let server: Server;
let key: string;
beforeAll(async () => {
  // The service as it is measured elsewhere: its provider accepts at once, and hands over codes that nobody needs here.
  const path = join(folder, "codes");
  const listener = createServer((socket) => void socket.resume()).listen(path);
  await once(listener, "listening");
  listener.unref();
  const codes = { path, codeFor: () => Promise.reject(new Error("nobody asks")), close: () => listener.close() };
  const prepared = await prepareSqlite({ folder, codes }, "otp");
  server = await startService({ folder, codes }, prepared, {}, { OTP_SEND_WAIT_MS: "0", OTP_LOG_LEVEL: "warn" });
  key = prepared.key;
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const rampMs = 4_000;

const sum = ({ ok }: LoadReport) => Object.values(ok).reduce((total, count) => total + count, 0);

type Plan = Pick<LoadPlan, "loops" | "streams">;

async function measure(name: string, plan: Plan, seconds: number): Promise<number> {
  const load = startLoad({ port: server.port, key, ...plan });
  pinLoad(load.pid);
  await load.started;
  // Connections are made first, which costs both sides more than a call.
  await new Promise((resolve) => setTimeout(resolve, rampMs));
  load.mark();
  const cpuBefore = cpuMicros(server.pid);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
  const mostMiB = residentMiB(server.pid);
  const report = await load.end();
  const cpuSeconds = (cpuMicros(server.pid) - cpuBefore) / 1e6;
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
  expect(residentMiB(server.pid)).toBeLessThan(768);
});
