/**
 * Servers as processes of their own: started, pinned to a core where the machine allows it, and billed for what the kernel
 * counted for them.
 */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { openSync, readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A server that listens. */
export interface Server {
  readonly pid: number;
  readonly port: number;
  /** Says something over IPC. */
  tell(message: string): void;
  /** Says something over IPC, and resolves with the answer. */
  ask<Answer>(message: string): Promise<Answer>;
  /** Ends it in order, or at once; resolves when it is gone. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** What the kernel counts a process's time in: a hundredth of a second on every Linux. */
const ticksPerSecond = 100;
const serverCpu = "0";
const loadCpu = "1";
export const canPin = cpus().length > 1 && succeeds("taskset", ["--version"]);

const children = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Pins the process that makes the load, this one unless given, away from the servers. */
export function pinLoad(pid = process.pid): void {
  pin(pid, loadCpu);
}

/** Pins a process, its threads and all its children to the servers' core. */
export function pinServer(pid: number): void {
  for (const each of [pid, ...descendantsOf(pid)]) pin(each, serverCpu);
}

function pin(pid: number, cpu: string): void {
  if (canPin) execFileSync("taskset", ["-a", "-p", "-c", cpu, `${pid}`], { stdio: "ignore" });
}

/** How a Node program is begun: options for Node, and a command that begins it. */
export interface Begun {
  readonly nodeArgs?: readonly string[];
  readonly prefix?: readonly string[];
}

/** Begins a Node program on the servers' core, by `prefix` if need be. Its standard error goes to a file in `folder`. */
export function spawnServer(
  folder: string,
  nodeArgs: readonly string[],
  env: Readonly<Record<string, string>>,
  prefix: readonly string[] = [],
): ChildProcess {
  const command = [...prefix, process.execPath, ...nodeArgs];
  const [program = "", ...args] = canPin ? ["taskset", "-c", serverCpu, ...command] : command;
  const child = spawn(program, args, {
    cwd: folder,
    env: environment(env),
    stdio: ["ignore", "pipe", openSync(join(folder, "servers.log"), "a"), "ipc"],
  });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

/** Starts one of ../servers; resolves once it tells its port. */
export async function startServer(
  folder: string,
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  { nodeArgs = [], prefix = [] }: Begun = {},
): Promise<Server> {
  const file = fileURLToPath(new URL(`../servers/${script}`, import.meta.url));
  const child = spawnServer(folder, [...nodeArgs, file, ...args], env, prefix);
  const port = await new Promise<number>((resolve, reject) => {
    let output = "";
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      const printed = /^port (\d+)$/m.exec(output)?.[1];
      if (printed !== undefined) resolve(Number(printed));
    });
    child.once("exit", () => {
      const log = readFileSync(join(folder, "servers.log"), "utf8");
      reject(new Error(`${script} ended before it listened:\n${log.slice(-2_000)}`));
    });
  });
  return {
    pid: child.pid ?? 0,
    port,
    tell: (message) => void child.send(message),
    async ask<Answer>(message: string) {
      const answered = once(child, "message");
      child.send(message);
      const [answer] = (await answered) as [Answer];
      return answer;
    },
    stop: (signal = "SIGTERM") => end(child, signal),
  };
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill(signal);
  await gone;
}

/** The environment without what would configure the service or a profiler. */
function environment(more: Readonly<Record<string, string>>): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    ([name, value]) => value !== undefined && !/^(OTP_|NODE_|VITEST)/.test(name),
  );
  return { ...(Object.fromEntries(inherited) as Record<string, string>), ...more };
}

/** User and system time so far of a process, of its children and of those that it has waited for, in microseconds. */
export function cpuMicros(pid: number): number {
  const ticks = [pid, ...descendantsOf(pid)].flatMap((each) => statOf(each).slice(11, 15).map(Number));
  return (ticks.reduce((sum, each) => sum + each, 0) / ticksPerSecond) * 1e6;
}

/** What all cores of the machine have done so far, but for waiting, in microseconds. */
export function machineMicros(): number {
  const [line = ""] = readFileSync("/proc/stat", "latin1").split("\n");
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line.trim().split(/\s+/).slice(1).map(Number);
  return ((user + nice + system + irq + softirq) / ticksPerSecond) * 1e6;
}

/** The memory that a process holds, in bytes. */
export function residentBytes(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kib) * 1_024;
}

/**
 * What the threads that a process has now took so far, to the nanosecond (where `cpuMicros` counts in hundredths of a
 * second), and how often they have waited for something and were woken.
 */
export function threadsOf(pid: number): { readonly cpuMs: number; readonly wakes: number } {
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}`);
  const sum = (figure: (thread: string) => number) => threads.reduce((all, thread) => all + figure(thread), 0);
  return {
    cpuMs: sum((thread) => Number(readFileSync(`${thread}/schedstat`, "latin1").split(" ")[0]) / 1e6),
    wakes: sum((thread) =>
      Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(readFileSync(`${thread}/status`, "utf8"))?.[1]),
    ),
  };
}

/** The fields of /proc/PID/stat behind the name; none for a process that is gone. */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}

function descendantsOf(pid: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => [Number(name), Number(statOf(Number(name))[1])] as const);
  const below = (parent: number): number[] =>
    parents.filter(([, each]) => each === parent).flatMap(([child]) => [child, ...below(child)]);
  return below(pid);
}

function succeeds(program: string, args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
