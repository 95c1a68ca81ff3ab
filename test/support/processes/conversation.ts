/**
 * A program that talks with its user in lines, as a test talks with it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";

export interface Conversation {
  /** The next line that it says. Throws, with its complaints, if it ends instead. */
  heard(): Promise<string>;
  /** Types a line, and resolves with the next one that it says. */
  say(line: string): Promise<string>;
  /** Resolves with its exit code once it is gone. */
  readonly ended: Promise<number | null>;
  /** Ends it, by SIGTERM unless told otherwise, and resolves once it is gone. */
  end(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts a program in `folder`, with `env` beside what it needs to run at all. */
export function converse(
  command: string,
  args: readonly string[],
  folder: string,
  env: Record<string, string>,
): Conversation {
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  // Whoever has said all may be gone before it reads the end of it.
  child.stdin.on("error", () => {});
  let said = "";
  let complaints = "";
  child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString("utf8")));
  child.stderr.on("data", (chunk: Buffer) => (complaints += chunk.toString("utf8")));
  const ended = once(child, "close").then(([code]) => code as number | null);
  let isOver = false;
  void ended.then(() => (isOver = true));

  async function heard(): Promise<string> {
    while (!said.includes("\n")) {
      if (isOver) throw new Error(`it ended without a word more: ${complaints}`);
      await Promise.race([ended, once(child.stdout, "data")]);
    }
    const line = said.slice(0, said.indexOf("\n"));
    said = said.slice(line.length + 1);
    return line;
  }
  return {
    heard,
    say(line) {
      child.stdin.write(`${line}\n`);
      return heard();
    },
    ended,
    async end(signal) {
      child.kill(signal);
      await ended;
    },
  };
}
