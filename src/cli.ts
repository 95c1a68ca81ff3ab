/**
 * The command `otpd`. Commands other than `serve` work beside a running server, and what they write counts at once. A
 * secret is printed once, by the command that makes it.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { parseDurationMs } from "./config-shapes.ts";
import { parseConfig, parseDatabasePath, type Parsed } from "./config.ts";
import type { RunningService } from "./main.ts";
import { scopes, type ApiKey, type Scope } from "./otp/api-key.ts";
import { issueKey } from "./service/api-keys.ts";
import { openSqlite } from "./store/sqlite.ts";
import type { Store } from "./store/store.ts";
import { createSystem, type Instant, type System } from "./system.ts";
import { createTelemetry } from "./telemetry.ts";

/** A command that cannot go on, with a sentence for whoever typed it. */
class Unusable extends Error {}

/** A command line that was not understood. */
class Misused extends Unusable {}

interface Command {
  /** What it does, in a line. */
  readonly summary: string;
  /** The whole of its --help. */
  readonly help: string;
  readonly run: (args: string[]) => Promise<void>;
}

const allScopes = scopes.join(",");

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
  "keys create": {
    summary: "make an API key",
    help: `Usage: otpd keys create [--name NAME] [--scopes LIST] [--expires WHEN] [--test] [--json]

Makes an API key and prints it, this once.

  --name NAME      what the key is for, at most 64 characters
  --scopes LIST    what it may do, of ${allScopes}; all of them unless given
  --expires WHEN   when it stops working: a date such as 2030-01-31 (in UTC), or a time from now such as 90d
  --test           a key for the sandbox: fictional numbers only, nothing is ever sent (docs/testing.md)
  --json           print {"id","key","name","scopes","expire_time"}`,
    run: createKey,
  },
  "keys list": {
    summary: "list the API keys",
    help: `Usage: otpd keys list [--json]

Lists every API key, without its secret.

  --json   print an array of {"id","name","scopes","state","create_time","expire_time","last_use_time"}`,
    run: listKeys,
  },
  "keys revoke": {
    summary: "revoke an API key",
    help: `Usage: otpd keys revoke ID

Revokes the API key with this id. It is refused from the next call on.`,
    run: revokeKey,
  },
};

const usage = `Usage: otpd COMMAND

Phone verification that anyone can host.

${Object.entries(commands)
  .map(([name, { summary }]) => `  ${name.padEnd(14)} ${summary}`)
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
    else complain(`There is no command "${argv.slice(0, argv[0] === "keys" ? 2 : 1).join(" ")}".\n\n${usage}`);
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
    complain(error instanceof Error ? error.message : String(error));
    if (!isParsing && !(error instanceof Misused)) return 1;
    complain(`\n${command.help}`);
    return 2;
  }
}

async function serve(args: string[]): Promise<void> {
  parseArgs({ args, options: {} });
  const parsed = parseConfig(process.env, (path) => readFileSync(path, "utf8"));
  const config = valueOf("otpd cannot start", parsed);
  const telemetry = createTelemetry(config.logLevel, version());
  for (const warning of parsed.warnings) telemetry.warning(warning);
  const system = createSystem(telemetry.clockJump);
  const stopped = Promise.withResolvers<void>();
  let service: RunningService | undefined;
  let stopping = false;
  // Before the start: whoever reads "listening" may send a signal at once. Until then no call is under way.
  const stop = () => {
    if (service === undefined) process.exit(0);
    if (stopping) return;
    stopping = true;
    service.stop().then(stopped.resolve, stopped.reject);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  process.on("SIGHUP", () => service?.reload());
  // Not imported at the top: loading the server is half of the start-up time, and no other command needs it.
  const { startService } = await import("./main.ts");
  service = await startService(config, { system, telemetry, print: (text) => void process.stdout.write(text) });
  await stopped.promise;
  telemetry.flush();
}

async function createKey(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      name: { type: "string", default: "" },
      scopes: { type: "string", default: allScopes },
      expires: { type: "string" },
      test: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
    },
  });
  if (values.name.length > 64 || /\p{Cc}/u.test(values.name))
    throw new Misused("--name must be one line of at most 64 characters.");
  const wanted = values.scopes.split(",").map((scope) => scope.trim());
  const unknown = wanted.filter((scope) => !scopes.some((known) => known === scope));
  if (unknown.length > 0) throw new Misused(`--scopes must be a list of ${allScopes}.`);
  const expireMs = values.expires === undefined ? null : parseExpiry(values.expires, createSystem().now());
  await withStore(async (store, system) => {
    const wish = {
      kind: values.test ? ("test" as const) : ("live" as const),
      tenant: "default",
      name: values.name,
      scopes: scopes.filter((scope: Scope) => wanted.includes(scope)),
      expireMs,
    };
    const { key, text } = await issueKey(store, system, wish);
    if (values.json) {
      const { id, name, scopes: granted } = key;
      say(JSON.stringify({ id, key: text.reveal(), name, scopes: granted, expire_time: timeOf(expireMs) }));
    } else {
      say(
        `The API key, shown this once:\n\n  ${text.reveal()}\n\nid ${key.id}, may ${key.scopes.join(", ")}, ${expireMs === null ? "does not expire" : `expires ${timeOf(expireMs)}`}`,
      );
    }
  });
}

async function listKeys(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { json: { type: "boolean", default: false } } });
  await withStore(async (store) => {
    const keys = (await store.listApiKeys()).map((key) => ({
      id: key.id,
      name: key.name,
      scopes: key.scopes,
      state: stateOf(key, store.now()),
      create_time: timeOf(key.createMs),
      expire_time: timeOf(key.expireMs),
      last_use_time: timeOf(key.lastUseMs),
    }));
    if (values.json) return say(JSON.stringify(keys));
    if (keys.length === 0) return say("There are no API keys. Make one: npx otpd keys create --name me");
    const head = ["ID", "NAME", "STATE", "SCOPES", "LAST USED", "EXPIRES"];
    const lines = keys.map((k) => [
      k.id,
      k.name || "-",
      k.state,
      k.scopes.join(","),
      k.last_use_time ?? "never",
      k.expire_time ?? "never",
    ]);
    say(table([head, ...lines]));
  });
}

async function revokeKey(args: string[]): Promise<void> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const [id] = positionals;
  if (id === undefined || positionals.length > 1)
    throw new Misused("Give the id of one key: otpd keys list shows them.");
  await withStore(async (store) => {
    if (!(await store.revokeApiKey(id, store.now())))
      throw new Unusable(`There is no API key with the id ${id.slice(0, 10)}.`);
    say(`Revoked ${id}.`);
  });
}

function stateOf(key: ApiKey, now: Instant): string {
  if (key.revokeMs !== null) return "revoked";
  return key.expireMs !== null && key.expireMs <= now ? "expired" : "active";
}

function timeOf(instant: Instant | null): string | null {
  return instant === null ? null : new Date(instant).toISOString();
}

function parseExpiry(text: string, now: Instant): Instant {
  const fromNow = /^\d+[smhd]$/.test(text) ? parseDurationMs(text) : undefined;
  const at = fromNow === undefined ? parseDate(text) : now + fromNow;
  if (at === undefined || at <= now) {
    throw new Misused("--expires must be a date to come such as 2030-01-31, or a time from now such as 90d.");
  }
  return at;
}

/** `2030-01-31` or `2030-01-31T12:00Z`, in UTC. Date.parse alone also takes 2030-02-31, for the 3rd of March. */
function parseDate(text: string): Instant | undefined {
  if (!/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?Z)?$/.test(text)) return undefined;
  const at = Date.parse(text);
  return timeOf(Number.isNaN(at) ? null : at)?.startsWith(text.slice(0, 10)) ? at : undefined;
}

/** Opens the database beside a server that may be running, and closes it again. */
async function withStore(act: (store: Store, system: System) => Promise<void>): Promise<void> {
  const path = valueOf("otpd cannot open its database", parseDatabasePath(process.env));
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const system = createSystem();
  const store = await openSqlite({ path, system, exclusive: false });
  try {
    await act(store, system);
  } finally {
    await store.close();
  }
}

function valueOf<T>(trouble: string, parsed: Parsed<T>): T {
  if (parsed.ok) return parsed.value;
  throw new Unusable(`${trouble}:\n${parsed.faults.map((fault) => `  - ${fault}`).join("\n")}`);
}

function table(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function version(): string {
  const file = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(file) as { version: string }).version;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function complain(text: string): void {
  process.stderr.write(`${text}\n`);
}
