/**
 * Python with its gRPC library, where this machine has it: a client that shares no code with ours.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { python } from "../../machine.ts";

/** Runs a script to its end; resolves with the lines that it printed. */
export async function runPython(script: string, args: readonly string[]): Promise<string[]> {
  const { stdout } = await promisify(execFile)(python, ["-c", script, ...args], { timeout: 120_000 });
  return stdout.trimEnd().split("\n");
}
