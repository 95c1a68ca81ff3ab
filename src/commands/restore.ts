/**
 * `otpd restore`: replaces the SQLite database by a backup, so that no code works a second time.
 */
import { parseDatabase } from "../config/config.ts";
import { expirePendingOnPostgres, type Expired } from "../store/move/expire-pending.ts";
import { requireDatabase } from "../store/existing.ts";
import type { Database } from "../store/open.ts";
import { expireWithoutServer, restore as restoreBackup } from "../store/sqlite/backup.ts";
import { timeOf, createSystem, type Instant } from "../system.ts";
import { showPages, tellingTrouble } from "./backup.ts";
import { flag, Misused, parseArgs, readText, say, single, Unusable, valueOf, type Command } from "./command.ts";

export const restore: Command = {
  summary: "put a backup in the place of the database",
  help: `Usage: otpd restore FILE
       otpd restore --expire-only

Puts a copy of FILE, made by otpd backup, in the place of the SQLite database that OTP_DATABASE_URL names. Stop the server
first. The database that was there is kept beside it under another name. A backup does not know which codes were used
after it was made, so every pending request in it is ended as expired, and no message owed is sent any more. Limits, wrong
codes, keys and lists are those of the backup: revoke again what was revoked since.

  --expire-only   ends what is pending in the database as it is, after pg_restore or anything else has put it back`,
  run,
};

async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: { "expire-only": flag }, allowPositionals: true });
  if (values["expire-only"] && positionals.length > 0) throw new Misused("Give a file or --expire-only, not both.");
  const file = values["expire-only"] ? undefined : single(positionals, "Give the one file to restore from.");
  const database = valueOf("otpd cannot restore", parseDatabase(process.env, readText));
  const now = createSystem().now();
  if (file === undefined) return say(`${ended(await expireOnly(database, now))}\n\n${sinceCopy}`);
  if (database.kind !== "sqlite") {
    throw new Unusable(
      "The database is PostgreSQL, which is put back by its own means: use pg_restore, then otpd restore --expire-only.",
    );
  }
  const { path } = database;
  const asideEnding = `.until-${timeOf(now)?.replaceAll(/[:.]/g, "-")}`;
  const done = await tellingTrouble("Nothing was restored", () =>
    restoreBackup({ path, from: file, asideEnding, now }, showPages),
  );
  const kept =
    done.aside === undefined
      ? []
      : [`The database that was there is now ${done.aside}: delete it once nobody needs it.`];
  say(
    [
      `Restored ${path} from ${file}, which had last seen ${timeOf(done.asOfMs)}.`,
      ended(done.expired),
      ...kept,
      "",
      forgotten,
    ].join("\n"),
  );
}

async function expireOnly(database: Database, now: Instant): Promise<Expired> {
  if (database.kind === "postgres") {
    try {
      await requireDatabase(database);
      return await expirePendingOnPostgres(database.url);
    } catch (error) {
      // The URL holds a password: only messages are printed, which have none.
      throw new Unusable(`Nothing was ended: ${error instanceof Error ? error.message : "there is no connection"}.`);
    }
  }
  return tellingTrouble("Nothing was ended", () => expireWithoutServer(database.path, now));
}

function ended({ verifications, messages }: Expired): string {
  return `Ended as expired: ${verifications} pending requests. Not sent or settled any more: ${messages} messages.`;
}

const forgotten = `What happened after the backup is not in it: revoke again the keys that were revoked since, and look through
otpd tenants list and otpd destinations list. The master key must be the one from then: otpd doctor tells.`;
const sinceCopy = `All else stays as it is. If the database was put back from a copy, what happened after that copy is not in it: revoke
again the keys that were revoked since, and look through otpd tenants list and otpd destinations list. The master key must
be the one from then: otpd doctor tells.`;
