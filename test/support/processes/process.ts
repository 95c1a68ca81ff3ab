/**
 * The real command in a process of its own, as an operator runs it.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The file that `otpd` runs. The tests' global setup has built the server, and it starts what was built as long as no source has
 * changed since.
 */
export const launcher = fileURLToPath(new URL("../../../src/otpd.js", import.meta.url));

/** The environment without any OTP_* of the machine's own. */
export function cleanEnv(more: Record<string, string> = {}): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    ([name, value]) => !name.startsWith("OTP_") && value !== undefined,
  );
  return { ...(Object.fromEntries(inherited) as Record<string, string>), ...more };
}

export interface Otpd {
  readonly process: ChildProcess;
  readonly url: string;
  /** All that came on standard output, and on standard error, so far. */
  readonly output: () => string;
  readonly errors: () => string;
  /** Resolves with the first match in the output, once there is one. */
  waitFor(pattern: RegExp, where?: "output" | "errors"): Promise<RegExpMatchArray>;
  /** Sends a signal, and resolves with the exit code once the process is gone. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
}

interface Started {
  readonly file?: string;
  readonly node?: string;
  readonly user?: { readonly uid?: number; readonly gid?: number };
}

/**
 * Starts `otpd serve` on a free port in `folder`, and resolves once it listens and its banner, if it has one, is here. The
 * file and the Node that are started can be those of an installation, and the process another user's, where root starts it.
 */
export async function startOtpd(
  folder: string,
  env: Record<string, string | undefined> = {},
  args: string[] = ["serve"],
  { file = launcher, node = process.execPath, user = {} }: Started = {},
): Promise<Otpd> {
  const child = spawn(node, [file, ...args], {
    cwd: folder,
    // What is undefined is left out: an earlier version knows fewer variables.
    env: { ...cleanEnv({ OTP_PORT: "0", OTP_ADMIN_PORT: "0" }), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    ...user,
  });
  const text = { output: "", errors: "" };
  const waiters = new Set<() => void>();
  const keep = (where: keyof typeof text) => (chunk: Buffer) => {
    text[where] += chunk.toString("utf8");
    for (const check of waiters) check();
  };
  child.stdout.on("data", keep("output"));
  child.stderr.on("data", keep("errors"));
  // Not "exit": what was written last may still be on its way.
  const gone = once(child, "close");
  let isOver = false;
  void gone.then(() => {
    isOver = true;
    for (const check of waiters) check();
  });

  function waitFor(pattern: RegExp, where: keyof typeof text = "output"): Promise<RegExpMatchArray> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = text[where].match(pattern);
        if (found === null && !isOver) return;
        waiters.delete(check);
        if (found === null) reject(new Error(`otpd ended without ${pattern}:\n${text.output}\n${text.errors}`));
        else resolve(found);
      };
      waiters.add(check);
      check();
    });
  }

  const [, port] = await waitFor(/"port":(\d+),"msg":"listening"/, "errors");
  // Printed before, but on a pipe of its own, which may be read later.
  if (env["OTP_ENV"] !== "production") await waitFor(/^otpd listens on /m);
  const scheme = env["OTP_TLS_CERT_FILE"] === undefined ? "http" : "https";
  return {
    process: child,
    url: `${scheme}://127.0.0.1:${port}`,
    output: () => text.output,
    errors: () => text.errors,
    waitFor,
    async end(signal = "SIGTERM") {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      const [code] = (await gone) as [number | null];
      return code;
    },
  };
}

/** Runs a command of `otpd` to its end; `nodeArgs` go to Node itself. Another `file` is as `startOtpd` has it. */
export async function runOtpd(
  folder: string,
  args: string[],
  env: Record<string, string> = {},
  nodeArgs: string[] = [],
  file = launcher,
) {
  const child = spawn(process.execPath, [...nodeArgs, file, ...args], {
    cwd: folder,
    env: cleanEnv(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString("utf8")));
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString("utf8")));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, output, errors };
}

/** The API key that a first start prints. */
export async function firstKey(otpd: Otpd): Promise<string> {
  const [, key] = await otpd.waitFor(/Bearer (otp_live_\w+)"/);
  return key as string;
}

/** How much memory a process holds, in MiB. Linux only. */
export function residentMiB(pid: number | undefined): number {
  return mebibytes("VmRSS", pid);
}

/** The environment of a process whose `heldMiB` can be told. */
export const collecting = { NODE_OPTIONS: `--import=${new URL("collecting.ts", import.meta.url)}` };

/** How much a process holds once it has collected all that it does not, in MiB. It was started as `collecting`. */
export async function heldMiB(otpd: Otpd): Promise<number> {
  const next = otpd.errors().split("\ncollected ").length;
  otpd.process.kill("SIGUSR2");
  const [, bytes] = await otpd.waitFor(new RegExp(`^collected ${next}: (\\d+) bytes$`, "m"), "errors");
  return Number(bytes) / 1_048_576;
}

/** The most that a process has held at any moment, in MiB, since its start or `forgetPeak`. Linux only. */
export function peakMiB(pid: number | undefined): number {
  return mebibytes("VmHWM", pid);
}

export function forgetPeak(pid: number | undefined): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

function mebibytes(name: string, pid: number | undefined): number {
  const [, kib] = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kib) / 1_024;
}
