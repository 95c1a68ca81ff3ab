/**
 * The command `otpd`. Commands work beside a running server, and what they write counts at once; `copy` and `restore`
 * refuse to. A secret is printed once, by the command that makes it.
 */
import { parseArgs } from "node:util";
import { backup } from "./commands/backup.ts";
import { complain, messageOf, Misused, say, version, withStore, type Command } from "./commands/command.ts";
import { copy } from "./commands/copy.ts";
import { destinationCommands } from "./commands/destinations.ts";
import { doctor } from "./commands/doctor.ts";
import { keyCommands } from "./commands/keys.ts";
import { phoneCommands } from "./commands/phones.ts";
import { prefixCommands } from "./commands/prefixes.ts";
import { prune } from "./commands/prune.ts";
import { restore } from "./commands/restore.ts";
import { serve } from "./commands/serve.ts";
import { tenantCommands } from "./commands/tenants.ts";
import { webhookCommands } from "./commands/webhooks.ts";
import { StoreUnavailable } from "./store/store.ts";

const commands: Record<string, Command> = {
  serve: {
    summary: "run the service",
    help: `Usage: otpd serve

Runs the service until SIGTERM or SIGINT. It is configured by OTP_* variables, see the README.`,
    run: serve,
  },
  migrate: {
    summary: "create the database or bring it up to date",
    help: `Usage: otpd migrate

Creates the database that OTP_DATABASE_URL names, or brings it up to date. serve does so too.`,
    run: async (args) => {
      parseArgs({ args, options: {} });
      await withStore(async () => {});
      say("The database is up to date.");
    },
  },
  prune,
  copy,
  backup,
  restore,
  doctor,
  ...keyCommands,
  ...phoneCommands,
  ...destinationCommands,
  ...prefixCommands,
  ...tenantCommands,
  ...webhookCommands,
};

/** The first words of commands that have two. */
const groups = new Set(Object.keys(commands).flatMap((name) => (name.includes(" ") ? [name.split(" ")[0]] : [])));

const usage = `Usage: otpd COMMAND

Phone verification that anyone can host.

${Object.entries(commands)
  .map(([name, { summary }]) => `  ${name.padEnd(22)} ${summary}`)
  .join("\n")}

otpd COMMAND --help tells more. Configuration is by OTP_* variables, see the README.`;

/** Runs a command line; resolves with the exit code: 0, 1 when it failed, 2 when it was not understood. */
export async function run(argv: string[]): Promise<number> {
  const name = [argv.slice(0, 2).join(" "), argv[0] ?? ""].find((candidate) => candidate in commands);
  const command = name === undefined ? undefined : commands[name];
  if (command === undefined || name === undefined) {
    const asked = argv.length === 0 || argv.some((arg) => arg === "--help" || arg === "-h" || arg === "help");
    if (argv[0] === "--version") say(version());
    else if (asked) say(usage);
    else complain(`There is no command "${argv.slice(0, groups.has(argv[0] ?? "") ? 2 : 1).join(" ")}".\n\n${usage}`);
    return asked || argv[0] === "--version" ? 0 : 2;
  }
  const args = argv.slice(name.split(" ").length);
  if (args.includes("--help") || args.includes("-h")) {
    say(command.help);
    return 0;
  }
  try {
    await command.run(args);
    return 0;
  } catch (error) {
    const isParsing = error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
    if (error instanceof StoreUnavailable) complain(`The database cannot be used now: ${error.message}.`);
    else complain(messageOf(error));
    if (!isParsing && !(error instanceof Misused)) return 1;
    complain(`\n${command.help}`);
    return 2;
  }
}
