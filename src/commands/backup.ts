/**
 * `otpd backup`: a copy of the SQLite database, taken while the server goes on.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseDatabase } from "../config/config.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import { BackupTrouble, backUp } from "../store/sqlite/backup.ts";
import { parseArgs, readText, say, single, Unusable, valueOf, type Command } from "./command.ts";
import { showProgress } from "./progress.ts";

export const backup: Command = {
  summary: "back up the SQLite database while the server runs",
  help: `Usage: otpd backup FILE

Writes the SQLite database that OTP_DATABASE_URL names to a new file, as of one moment, beside a running server. FILE is
there once it is whole, checked and on the disk; nothing is ever written over. Only its owner can read it. The master key
is not in it: keep that apart from it, since the two together are all that a thief needs. The way back is otpd restore.

PostgreSQL is backed up by its own means, such as pg_dump.`,
  run,
};

async function run(args: string[]): Promise<void> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const file = single(positionals, "Give one file to write to.");
  const database = valueOf("otpd cannot back up", parseDatabase(process.env, readText));
  if (database.kind !== "sqlite") {
    throw new Unusable(
      "The database is PostgreSQL, which is backed up by its own means: use pg_dump, or a base backup.",
    );
  }
  await tellingTrouble("Nothing was backed up", () => backUp(database.path, file, showPages));
  say(`Backed up ${database.path} to ${file}.

The master key is not in it: it is ${whereKeyIs(database.path)}. Keep a copy of that too, apart from this
file: without it no number in the backup can be read and limits begin anew, and a thief needs both.`);
}

/** Says where the master key is. The command may lack the server's variables: then it cannot say. */
function whereKeyIs(databasePath: string): string {
  const named = ["OTP_MASTER_KEY", "OTP_MASTER_KEY_FILE"].find((name) => process.env[name]);
  const own = join(dirname(databasePath), "master.key");
  if (named !== undefined || existsSync(own)) return `in ${named ?? own}`;
  return "where the server's OTP_MASTER_KEY comes from";
}

/** Shows how much was copied, on a terminal. */
export function showPages(done: number, total: number): void {
  showProgress(`${Math.floor((100 * done) / Math.max(1, total))} % of ${total} pages`);
}

/** Runs an act. Its failure ends the command with what could not be done; the line of progress is cleared. */
export async function tellingTrouble<T>(what: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof BackupTrouble) throw new Unusable(`${what}: ${error.message}.`);
    // Such as a full disk, or a folder that is missing or not ours.
    const trouble = fileTrouble(error);
    if (trouble !== undefined) {
      const { path = "a file" } = error as NodeJS.ErrnoException;
      throw new Unusable(`${what}: ${path} ${trouble}.`);
    }
    if (error instanceof Error && "syscall" in error) throw new Unusable(`${what}: ${error.message}.`);
    throw error;
  } finally {
    showProgress("");
  }
}
