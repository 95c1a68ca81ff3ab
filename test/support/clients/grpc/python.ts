/**
 * Python with its gRPC library, where this machine has it: a client that shares no code with ours.
 */
import { execFile, execFileSync } from "node:child_process";
import { promisify } from "node:util";

const python = "/usr/bin/python3";

/** Why it cannot be had here; undefined when it can. */
export const missingGrpcio: string | undefined = (() => {
  try {
    execFileSync(python, ["-c", "import grpc"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "there is no python3-grpcio on this machine";
  }
})();

/** Runs a script to its end; resolves with the lines that it printed. */
export async function runPython(script: string, args: readonly string[]): Promise<string[]> {
  const { stdout } = await promisify(execFile)(python, ["-c", script, ...args], { timeout: 120_000 });
  return stdout.trimEnd().split("\n");
}
