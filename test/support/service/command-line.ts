/**
 * A command line run within the test's own process: a process each would take most of a minute.
 */
import { run } from "../../../src/cli.ts";

/** Runs a command line; resolves with its exit code and what it wrote. One at a time. */
export async function runHere(argv: string[]) {
  const written = { output: "", errors: "" };
  const { stdout, stderr } = process;
  const [writeOut, writeErr] = [stdout.write, stderr.write];
  stdout.write = (text: string | Uint8Array) => ((written.output += String(text)), true);
  stderr.write = (text: string | Uint8Array) => ((written.errors += String(text)), true);
  try {
    return { code: await run(argv), ...written };
  } finally {
    stdout.write = writeOut;
    stderr.write = writeErr;
  }
}
