/**
 * The command `otpd`. Its commands work beside a running server, except `copy` and `restore`, which refuse to, and what they
 * write counts at once. A secret is printed once, by the command that makes it.
 */
import { parseArgs } from "node:util";
import { backup } from "./commands/backup.ts";
import {
  sayError,
  messageOf,
  Misused,
  say,
  version,
  withStore,
  type Command,
  type Commands,
} from "./commands/command.ts";
import { copy } from "./commands/copy.ts";
import { destinationCommands } from "./commands/destinations.ts";
import { doctor } from "./commands/doctor.ts";
import { keyCommands } from "./commands/keys.ts";
import { phoneCommands } from "./commands/phones.ts";
import { prefixCommands } from "./commands/prefixes.ts";
import { providerCommands } from "./commands/providers.ts";
import { prune } from "./commands/prune.ts";
import { restore } from "./commands/restore.ts";
import { serve } from "./commands/serve.ts";
import { tenantCommands } from "./commands/tenants.ts";
import { webhookCommands } from "./commands/webhooks.ts";
import { StoreUnavailable } from "./store/store.ts";

const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    serve: {
      summary: "run the service",
      help: `Usage: otpd serve

Runs the service until SIGTERM or SIGINT, and makes its database where there is none. It is configured by OTP_* variables,
see the README.`,
      run: serve,
    },
    migrate: {
      summary: "bring the database up to date",
      help: `Usage: otpd migrate

Brings the database that OTP_DATABASE_URL names up to date. serve does so too, and makes it where there is none.`,
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
    ...providerCommands,
    ...tenantCommands,
    ...webhookCommands,
  } satisfies Commands),
);

/** The lines that name the commands, or those of one group. */
function listed(group?: string): string {
  return [...commands]
    .filter(([name]) => group === undefined || name.startsWith(`${group} `))
    .map(([name, { summary }]) => `  ${name.padEnd(22)} ${summary}`)
    .join("\n");
}

const usage = `Usage: otpd COMMAND

Phone verification that anyone can host.

${listed()}

otpd COMMAND --help tells more. Configuration is by OTP_* variables, see the README.`;

/** What a command line means: a command to run, a text to show, or a fault. */
type Meant =
  | { readonly command: Command; readonly args: string[] }
  | { readonly text: string }
  | { readonly trouble: string; readonly usage: string };

function meantBy(argv: string[]): Meant {
  const [first = "help", ...rest] = argv;
  if (first === "--version") return { text: version() };
  const isHelp = first === "help" || first === "--help" || first === "-h";
  const words = isHelp ? rest : argv;
  const [group = "", second] = words;
  if (isHelp && words.length === 0) return { text: usage };
  const isAsked = isHelp || words.some((word) => word === "--help" || word === "-h");
  for (const count of [2, 1]) {
    const command = commands.get(words.slice(0, count).join(" "));
    if (command === undefined) continue;
    return isAsked ? { text: command.help } : { command, args: words.slice(count) };
  }
  const members = listed(group);
  if (members === "")
    return {
      trouble: `There is no command "${group}".`,
      usage: "Usage: otpd COMMAND\n\notpd --help lists the commands.",
    };
  const groupUsage = `Usage: otpd ${group} COMMAND\n\n${members}`;
  const isGroupAlone = second === undefined || second.startsWith("-");
  if (isGroupAlone && isAsked) return { text: `${groupUsage}\n\notpd help ${group} COMMAND tells more.` };
  const trouble = isGroupAlone ? `Say what otpd ${group} is to do.` : `There is no command "${group} ${second}".`;
  return { trouble, usage: groupUsage };
}

/** Runs a command line; resolves with the exit code: 0, 1 when it failed, 2 when it was not understood. */
export async function run(argv: string[]): Promise<number> {
  const meant = meantBy(argv);
  if ("text" in meant) {
    say(meant.text);
    return 0;
  }
  if ("trouble" in meant) {
    sayError(`${meant.trouble}\n\n${meant.usage}`);
    return 2;
  }
  const { command, args } = meant;
  try {
    await command.run(args);
    return 0;
  } catch (error) {
    const isParsing = error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
    if (error instanceof StoreUnavailable) sayError(`The database cannot be used now: ${error.message}.`);
    else sayError(messageOf(error));
    if (!isParsing && !(error instanceof Misused)) return 1;
    const [lines = ""] = command.help.split("\n\n");
    sayError(`\n${lines}\nWith --help it tells more.`);
    return 2;
  }
}
