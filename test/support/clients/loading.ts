/**
 * The other end of load.ts: starts it, and hears what it did.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { LoadPlan, LoadReport } from "./load.ts";

const script = fileURLToPath(new URL("load.ts", import.meta.url));

export interface Load {
  /** Resolves once all loops run. */
  readonly started: Promise<void>;
  /** Resolves once a call was served on every surface of the plan. */
  readonly served: Promise<void>;
  /** Forgets what was counted so far. */
  mark(): void;
  /** Ends the loops after their calls under way, unless they have ended by themselves; resolves with what they did. */
  end(): Promise<LoadReport>;
  readonly report: Promise<LoadReport>;
  readonly pid: number | undefined;
}

export function startLoad(plan: LoadPlan): Load {
  const child = spawn(process.execPath, [script, JSON.stringify(plan)], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.on("error", () => {});
  const started = Promise.withResolvers<void>();
  const served = Promise.withResolvers<void>();
  served.promise.catch(() => {});
  const report = Promise.withResolvers<LoadReport>();
  report.promise.catch(() => {});
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString("utf8");
    if (text.startsWith("started\n")) started.resolve();
    if (text.startsWith("started\nserved\n")) served.resolve();
  });
  child.once("close", () => {
    served.reject(new Error("the load ended before it was served on every surface"));
    const line = text.split("\n").find((candidate) => candidate.startsWith("{"));
    if (line === undefined) {
      started.reject(new Error("the load did not start"));
      report.reject(new Error("the load ended without a report"));
    } else {
      report.resolve(JSON.parse(line) as LoadReport);
    }
  });
  return {
    started: started.promise,
    served: served.promise,
    report: report.promise,
    pid: child.pid,
    mark: () => void child.stdin.write("mark\n"),
    end() {
      child.stdin.write("stop\n");
      return report.promise;
    },
  };
}
