/**
 * The command `otpd`. Its commands work beside a running server, and what they write counts at once; `copy` and
 * `restore` alone refuse to run beside one. A secret is printed once, by the command that makes it.
 */
import { parseArgs } from "node:util";
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
import { StoreUnavailable } from "./store/store.ts";

const own = {
  serve: {
    summary: "run the service",
    help: `Usage: otpd serve

Runs the service until SIGTERM or SIGINT, and makes its database where there is none. It is configured by OTP_* variables,
see the README.`,
    run: async (args) => (await import("./commands/serve.ts")).serve(args),
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
} satisfies Commands;

/**
 * The commands by the first word of their names, in the order in which they are listed. Each is loaded where it is needed: a
 * server that held the others would be some megabytes larger, and start later.
 */
const loaders: ReadonlyMap<string, () => Promise<Commands>> = new Map<string, () => Promise<Commands>>([
  ["serve", async () => ({ serve: own.serve })],
  ["migrate", async () => ({ migrate: own.migrate })],
  ["prune", async () => ({ prune: (await import("./commands/prune.ts")).prune })],
  ["copy", async () => ({ copy: (await import("./commands/copy.ts")).copy })],
  ["backup", async () => ({ backup: (await import("./commands/backup.ts")).backup })],
  ["restore", async () => ({ restore: (await import("./commands/restore.ts")).restore })],
  ["doctor", async () => ({ doctor: (await import("./commands/doctor.ts")).doctor })],
  ["console", async () => (await import("./commands/console.ts")).consoleCommands],
  ["demo-data", async () => (await import("./commands/demo-data.ts")).demoDataCommands],
  ["keys", async () => (await import("./commands/keys.ts")).keyCommands],
  ["phones", async () => (await import("./commands/phones.ts")).phoneCommands],
  [
    "destinations",
    async () => ({
      ...(await import("./commands/destinations.ts")).destinationCommands,
      ...(await import("./commands/prefixes.ts")).prefixCommands,
    }),
  ],
  ["providers", async () => (await import("./commands/providers.ts")).providerCommands],
  ["tenants", async () => (await import("./commands/tenants.ts")).tenantCommands],
  ["stats", async () => (await import("./commands/stats.ts")).statsCommands],
  ["audit", async () => (await import("./commands/audit.ts")).auditCommands],
  ["webhooks", async () => (await import("./commands/webhooks.ts")).webhookCommands],
]);

/** Loads the commands that begin with a word. Not from an object: `constructor` is there too. */
async function load(word: string): Promise<ReadonlyMap<string, Command>> {
  return new Map(Object.entries((await loaders.get(word)?.()) ?? {}));
}

/** The lines that name commands. */
function listed(commands: ReadonlyMap<string, Command>): string {
  return [...commands].map(([name, { summary }]) => `  ${name.padEnd(22)} ${summary}`).join("\n");
}

async function usage(): Promise<string> {
  const all = await Promise.all([...loaders.keys()].map(load));
  return `Usage: otpd COMMAND

Phone verification that anyone can host.

${all.map(listed).join("\n")}

otpd COMMAND --help tells more. Configuration is by OTP_* variables, see the README.`;
}

/** What a command line means: a command to run, a text to show, or a fault. */
type Meant =
  | { readonly command: Command; readonly args: string[] }
  | { readonly text: string }
  | { readonly trouble: string; readonly usage: string };

async function meantBy(argv: string[]): Promise<Meant> {
  const [first = "help", ...rest] = argv;
  if (first === "--version") return { text: version() };
  const isHelp = first === "help" || first === "--help" || first === "-h";
  const words = isHelp ? rest : argv;
  const [group = "", second] = words;
  if (isHelp && words.length === 0) return { text: await usage() };
  const commands = await load(group);
  const isAsked = isHelp || words.some((word) => word === "--help" || word === "-h");
  for (const count of [2, 1]) {
    const command = commands.get(words.slice(0, count).join(" "));
    if (command === undefined) continue;
    return isAsked ? { text: command.help } : { command, args: words.slice(count) };
  }
  if (commands.size === 0)
    return {
      trouble: `There is no command "${group}".`,
      usage: "Usage: otpd COMMAND\n\notpd --help lists the commands.",
    };
  const groupUsage = `Usage: otpd ${group} COMMAND\n\n${listed(commands)}`;
  const isGroupAlone = second === undefined || second.startsWith("-");
  if (isGroupAlone && isAsked) return { text: `${groupUsage}\n\notpd help ${group} COMMAND tells more.` };
  const trouble = isGroupAlone ? `Say what otpd ${group} is to do.` : `There is no command "${group} ${second}".`;
  return { trouble, usage: groupUsage };
}

/** Runs a command line; resolves with the exit code: 0, 1 when it failed, 2 when it was not understood. */
export async function run(argv: string[]): Promise<number> {
  const meant = await meantBy(argv);
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
    // Node's advice on arguments that begin with a hyphen: none of ours does, and it lacks its last quote.
    else sayError(messageOf(error).replace(/\. To specify a positional argument .*/s, ""));
    if (!isParsing && !(error instanceof Misused)) return 1;
    const [lines = ""] = command.help.split("\n\n");
    sayError(`\n${lines}\nWith --help it tells more.`);
    return 2;
  }
}
