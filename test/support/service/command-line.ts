/**
 * A command line run within the test's own process: a process each would take most of a minute.
 */
import { run } from "../../../src/cli.ts";
import { cleanEnv } from "../processes/process.ts";

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

/** The same in a folder, with these variables and no other OTP_*: what `runOtpd` does in a process of its own. */
export async function runIn(folder: string, argv: string[], env: Record<string, string> = {}) {
  const [cwd, inherited] = [process.cwd(), process.env];
  process.chdir(folder);
  process.env = cleanEnv(env);
  try {
    return await runHere(argv);
  } finally {
    process.chdir(cwd);
    process.env = inherited;
  }
}
