/**
 * `npm run bench`: what a durable send + verify costs, beside two calls of a connect-node handler that does nothing.
 *
 * Server and load are processes of their own, each pinned to a core where the machine allows it. The two servers take
 * turns within one run, five rounds each, and the medians are compared: a ratio from one run says something on a noisy
 * machine, an absolute figure little. CPU is the server process's own, user and system, as the kernel counts it.
 */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { drive, openClient, openCodeBox, type Client } from "./load.ts";

const connections = Number(process.env["BENCH_CONNECTIONS"] ?? 32);
const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5);
const roundMs = Number(process.env["BENCH_ROUND_MS"] ?? 2_000);
const warmUpMs = Number(process.env["BENCH_WARM_UP_MS"] ?? 4_000);

const folder = mkdtempSync(join(tmpdir(), "otpd-bench-"));
/** What the kernel counts a process's time in: a hundredth of a second on every Linux. */
const ticksPerSecond = 100;
const canPin = cpus().length > 1 && succeeds("taskset", ["--version"]);

interface Server {
  readonly process: ChildProcess;
  readonly port: number;
  readonly output: string;
}

interface Round {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

const codes = await openCodeBox(join(folder, "codes.sock"));
const service = await start("service.ts", [join(folder, "otp.db"), codes.path], {
  OTP_SEND_WAIT_MS: "0",
  // One key does all the calls here, which are more than a key is allowed.
  OTP_KEY_LIMIT: "none",
});
const noop = await start("noop.ts", []);
if (canPin) execFileSync("taskset", ["-a", "-p", "-c", "1", `${process.pid}`], { stdio: "ignore" });
try {
  const key = /otp_live_\w+/.exec(service.output)?.[0] ?? "";
  const cycleClients = open(service.port, key);
  const noopClients = open(noop.port, key);
  await cycles(cycleClients, service, warmUpMs);
  await noops(noopClients, noop, warmUpMs);
  const results: { cycle: Round; noop: Round }[] = [];
  for (let round = 0; round < rounds; round++) {
    results.push({
      cycle: await cycles(cycleClients, service, roundMs),
      noop: await noops(noopClients, noop, roundMs),
    });
  }
  report(
    results.map(({ cycle }) => cycle),
    results.map((result) => result.noop),
  );
} finally {
  service.process.kill("SIGKILL");
  noop.process.kill("SIGKILL");
  codes.close();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);

function open(port: number, key: string): Client[] {
  return Array.from({ length: connections }, () => openClient(port, key));
}

async function cycles(clients: Client[], server: Server, durationMs: number): Promise<Round> {
  return measured(clients, server, durationMs, async (client) => {
    const phone = randomPhone();
    const sent = await client.post("/v1/otp/send", `{"phone":"${phone}"}`);
    const id = /"request_id":"([^"]+)"/.exec(sent.body)?.[1];
    if (sent.status !== 200 || id === undefined) throw new Error(`send answered ${sent.status} ${sent.body}`);
    const code = await codes.codeFor(phone);
    const verified = await client.post("/v1/otp/verify", `{"request_id":"${id}","code":"${code}"}`);
    if (verified.status !== 200) throw new Error(`verify answered ${verified.status} ${verified.body}`);
  });
}

async function noops(clients: Client[], server: Server, durationMs: number): Promise<Round> {
  return measured(clients, server, durationMs, async (client) => {
    const { status } = await client.post("/otp.v1.OtpService/SendOtp", `{"phone":"${randomPhone()}"}`);
    if (status !== 200) throw new Error(`the no-op answered ${status}`);
  });
}

async function measured(
  clients: Client[],
  server: Server,
  durationMs: number,
  work: (client: Client) => Promise<void>,
) {
  const before = cpuMicros(server);
  const { done, seconds } = await drive(clients, durationMs, work);
  return { perSecond: done / seconds, cpuMicros: (cpuMicros(server) - before) / done };
}

function report(cycle: readonly Round[], call: readonly Round[]): void {
  const rows = [
    ["", "per second", "CPU µs each", "CPU min–max"],
    ["send + verify, durable", ...figures(cycle)],
    ["connect-node no-op call", ...figures(call)],
  ];
  const ratio = median(cycle.map((round) => round.cpuMicros)) / (2 * median(call.map((round) => round.cpuMicros)));
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown CPU"}, Node ${process.versions.node}`;
  const lines = rows.map((row) => row.map((cell, i) => (i === 0 ? cell.padEnd(26) : cell.padStart(14))).join(""));
  process.stdout.write(
    [
      `${new Date().toISOString().slice(0, 10)}, ${machine}, ${connections} connections, ${rounds} rounds of ${roundMs} ms, ${canPin ? "pinned" : "not pinned"}`,
      "",
      ...lines,
      "",
      `CPU of a durable send + verify ÷ two no-op calls: ${ratio.toFixed(2)}`,
      "",
    ].join("\n"),
  );
}

function figures(all: readonly Round[]): string[] {
  const cpu = all.map((round) => round.cpuMicros);
  return [
    median(all.map((round) => round.perSecond)).toFixed(0),
    median(cpu).toFixed(1),
    `${Math.min(...cpu).toFixed(0)}–${Math.max(...cpu).toFixed(0)}`,
  ];
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** A random Dutch mobile number: the index pages that are touched are as spread as with real callers. */
function randomPhone(): string {
  return `+316${1 + Math.floor(Math.random() * 5)}${Math.floor(Math.random() * 1e7)
    .toString()
    .padStart(7, "0")}`;
}

async function start(file: string, args: string[], env: Record<string, string> = {}): Promise<Server> {
  const script = fileURLToPath(new URL(file, import.meta.url));
  const command = canPin ? ["taskset", "-c", "0", process.execPath, script] : [process.execPath, script];
  const [program = "", ...rest] = command;
  const child = spawn(program, [...rest, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", openSync(join(folder, `${file}.log`), "w")],
  });
  let output = "";
  for await (const [chunk] of on(child)) {
    output += chunk;
    const port = /^port (\d+)$/m.exec(output)?.[1];
    if (port !== undefined) return { process: child, port: Number(port), output };
  }
  throw new Error(`${file} did not start: ${readFileSync(join(folder, `${file}.log`), "utf8")}`);
}

async function* on(child: ChildProcess): AsyncGenerator<[string]> {
  child.stdout?.setEncoding("utf8");
  while (child.exitCode === null) {
    const [chunk] = (await Promise.race([once(child.stdout ?? child, "data"), once(child, "exit")])) as [
      string | number,
    ];
    if (typeof chunk === "string") yield [chunk];
  }
}

/** User and system time of the server so far, in microseconds. */
function cpuMicros({ process: { pid } }: Server): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) / ticksPerSecond) * 1e6;
}

function succeeds(program: string, args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
