/**
 * A small machine: a bound on the memory of a process and all that it starts, by a control group where the system allows it.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Confined {
  /** How it is bounded, in a few words. */
  readonly how: string;
  /** What starts a command within it. */
  readonly prefix: readonly string[];
  /** Options for Node. */
  readonly nodeArgs: readonly string[];
  /** The most that it held so far, the file cache included. Undefined where nobody counts. */
  peakBytes(): number | undefined;
  end(): void;
}

/** Version 1 and version 2 of control groups: where they are, which line of /proc/self/cgroup names ours, and their files. */
const versions = [
  {
    root: "/sys/fs/cgroup/memory",
    line: /^\d+:memory:(.*)$/m,
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
  },
  { root: "/sys/fs/cgroup", line: /^0::(.*)$/m, limit: "memory.max", peak: "memory.peak" },
] as const;

/** Bounds what is started by its prefix. Without control groups only V8's heap is bounded, and the rest is for the caller to watch. */
export function confine(bytesMax: number): Confined {
  for (const { root, line, limit, peak } of versions) {
    const own = line.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
    if (own === undefined) continue;
    const group = join(root, own, `otpd-small-${process.pid}`);
    try {
      mkdirSync(group);
      writeFileSync(join(group, limit), `${bytesMax}`);
    } catch {
      if (existsSync(group)) rmdirSync(group);
      continue;
    }
    return {
      how: `in a control group of ${bytesMax / 1_048_576} MiB`,
      prefix: ["sh", "-c", `echo $$ > "$0" && exec "$@"`, join(group, "cgroup.procs")],
      nodeArgs: [],
      peakBytes: () => Number(readFileSync(join(group, peak), "utf8")),
      end: () => rmdirSync(group),
    };
  }
  // What is left of it is for code, buffers and SQLite's pages.
  const heapMb = Math.floor(bytesMax / 2 / 1_048_576);
  return {
    how: `with --max-old-space-size=${heapMb}, for want of a control group`,
    prefix: [],
    nodeArgs: [`--max-old-space-size=${heapMb}`],
    peakBytes: () => undefined,
    end: () => {},
  };
}
