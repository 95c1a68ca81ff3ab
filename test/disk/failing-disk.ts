/**
 * Disks that fail for real, and get well again while the service runs: a small tmpfs that is filled up, a limit on the
 * size of files, and system calls that strace makes fail. Each says what it needs of the machine.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ToolName } from "../support/machine.ts";

export interface FailingDisk {
  readonly name: string;
  readonly needs: ToolName;
  /** Whether the folder has to be on the small tmpfs. */
  readonly onTmpfs: boolean;
  /** Makes it fail for a process; resolves once it does, with what makes it well again. */
  fail(pid: number, folder: string): Promise<() => Promise<void>>;
}

/** Mounts a tmpfs of `kibibytes` on a folder. */
export function mountTmpfs(folder: string, kibibytes: number): void {
  mkdirSync(folder, { recursive: true });
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${kibibytes}k`, "otpd-test", folder]);
}

export function remount(folder: string, mode: "ro" | "rw"): void {
  execFileSync("mount", ["-o", `remount,${mode}`, folder]);
}

export function unmount(folder: string): void {
  execFileSync("umount", [folder]);
}

/** Takes all the space that is left on a folder's disk; returns what gives it back. */
export function fillUp(folder: string): () => void {
  const path = join(folder, "filler");
  for (let bytes = 65_536; bytes >= 1; bytes = Math.floor(bytes / 2)) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(bytes, 1), { flag: "a" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }
  return () => rmSync(path);
}

const full: FailingDisk = {
  name: "a full disk",
  needs: "a tmpfs that may be mounted",
  onTmpfs: true,
  async fail(_pid, folder) {
    const free = fillUp(folder);
    return async () => free();
  },
};

const limited: FailingDisk = {
  name: "a limit on the size of files",
  needs: "prlimit",
  onTmpfs: false,
  async fail(pid) {
    const limit = (bytes: string) => void execFileSync("prlimit", ["--pid", `${pid}`, `--fsize=${bytes}:unlimited`]);
    limit("4096");
    return async () => limit("unlimited");
  },
};

/** Makes system calls of a running process fail, until strace lets go of it. */
function failingCalls(name: string, calls: string, error: string): FailingDisk {
  return {
    name,
    needs: "strace",
    onTmpfs: false,
    async fail(pid) {
      const inject = ["-e", `trace=${calls}`, "-e", `inject=${calls}:error=${error}`];
      const strace = spawn("strace", ["-f", "-p", `${pid}`, "-o", "/dev/null", ...inject], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      let said = "";
      strace.stderr.on("data", (chunk: Buffer) => (said += chunk.toString("utf8")));
      const ended = once(strace, "close");
      while (!said.includes("attached")) {
        await Promise.race([once(strace.stderr, "data"), ended]);
        if (strace.exitCode !== null) throw new Error(`strace ended: ${said}`);
      }
      return async () => {
        strace.kill("SIGINT");
        await ended;
      };
    },
  };
}

export const failingDisks: readonly FailingDisk[] = [
  full,
  limited,
  failingCalls("a disk that fails to write", "pwrite64", "EIO"),
  failingCalls("a disk that fails to flush", "fsync,fdatasync", "EIO"),
  failingCalls("a disk that has become read-only", "pwrite64", "EROFS"),
];
