/**
 * `otpd copy`: moves a SQLite installation to PostgreSQL.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseDatabase } from "../config/config.ts";
import { copyToPostgres, CopyInDoubt, type Copied } from "../store/move/copy.ts";
import { timeOf } from "../system.ts";
import {
  flag,
  Misused,
  parseArgs,
  readNamed,
  readText,
  say,
  sayError,
  table,
  Unusable,
  valueOf,
  type Command,
} from "./command.ts";
import { createProgressBar, showProgress } from "./progress.ts";

export const copy: Command = {
  summary: "move a SQLite installation to PostgreSQL",
  help: `Usage: otpd copy --to URL | --to-file FILE [--json]

Copies everything in the SQLite database that OTP_DATABASE_URL names to an empty PostgreSQL database, whose tables it makes:
keys, tenants, limits, lists, pending requests. Stop the server first. All of it arrives or nothing does. Then the SQLite
file is marked as moved and otpd works on it no more, or a code could be used once on each side. docs/operate.md tells more.

  --to       postgres://user:password@host:5432/database; other users of this machine can see it as long as it takes
  --to-file  a file with that URL in it
  --json     print {"target","tables":[{"table","rows"}]}`,
  run,
};

const targetShape = "must be postgres://user:password@host:5432/database";

async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    options: { to: { type: "string" }, "to-file": { type: "string" }, json: flag },
    // Node's own fault would repeat it, and it may hold a password.
    allowPositionals: true,
  });
  if (positionals.length > 0) throw new Misused("Give the target with --to or --to-file.");
  const url = targetUrl(values.to, values["to-file"]);
  const database = valueOf("otpd cannot copy", parseDatabase(process.env, readText));
  if (database.kind !== "sqlite") {
    throw new Unusable("OTP_DATABASE_URL names a PostgreSQL database, and copy takes from a SQLite file.");
  }
  const { path } = database;
  const copied = await copyShowing(path, url);
  const { target, counts, before } = copied;
  if (before !== undefined) {
    sayError(
      `${path} was copied before, to ${before.target} at ${timeOf(before.at_ms)}: what was done there is not in it.`,
    );
  }
  if (values.json)
    return say(
      JSON.stringify({ target, tables: counts.map(({ table: name, arrived }) => ({ table: name, rows: arrived })) }),
    );
  say(report(path, copied));
}

/** The URL of the target; else ends the command. The sentence does not repeat what was given. */
function targetUrl(given: string | undefined, file: string | undefined): string {
  if ((given === undefined) === (file === undefined)) throw new Misused("Give one of --to and --to-file.");
  const [option, text] =
    given === undefined ? ["--to-file", readNamed("--to-file", file ?? "").trim()] : ["--to", given];
  const parsed = parseDatabase({ OTP_DATABASE_URL: text }, readText);
  if (!parsed.ok || parsed.value.kind !== "postgres") throw new Misused(`${option} ${targetShape}.`);
  return parsed.value.url;
}

async function copyShowing(path: string, url: string): Promise<Copied> {
  let show: ReturnType<typeof createProgressBar> | undefined;
  try {
    return await copyToPostgres({
      path,
      url,
      onProgress: ({ table: name, done, total }) => {
        show ??= createProgressBar(total);
        show(done, name);
      },
    });
  } catch (error) {
    if (error instanceof CopyInDoubt) throw new Unusable(error.message);
    throw new Unusable(`Nothing was copied: ${error instanceof Error ? error.message : String(error)}.`);
  } finally {
    showProgress("");
  }
}

function report(path: string, { target, counts }: Copied): string {
  const total = counts.reduce((sum, { arrived }) => sum + arrived, 0);
  const ownKey = join(dirname(path), "master.key");
  const hasOwnKey = existsSync(ownKey) && !process.env["OTP_MASTER_KEY"] && !process.env["OTP_MASTER_KEY_FILE"];
  return [
    table(counts, {
      TABLE: (count) => count.table,
      "IN SQLITE": ({ rows }) => `${rows}`,
      "IN POSTGRESQL": ({ arrived }) => `${arrived}`,
    }),
    "",
    `Moved ${total} rows from ${path} to ${target}.`,
    "",
    "Next:",
    "- Set OTP_DATABASE_URL, or OTP_DATABASE_URL_FILE, to the new database wherever otpd runs.",
    hasOwnKey
      ? `- Set OTP_MASTER_KEY_FILE=${ownKey}: without that key no pending request verifies.`
      : "- Leave OTP_MASTER_KEY as it is: without that key no pending request verifies.",
    "- Start otpd.",
    `- Keep ${path} as a backup until you trust the new database, then delete it: nothing in it is swept any more.`,
    "  It is marked as moved, and otpd refuses to work on it. Do not start one from an older copy of it either: a code",
    "  that was used on one side could be used again on the other.",
  ].join("\n");
}
