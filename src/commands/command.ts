/**
 * What all commands of `otpd` share: their shape, how they print and fail, and how they open the database beside a server that
 * may be running.
 */
import { readFileSync } from "node:fs";
import { parseArgs as parseAny, type ParseArgsConfig } from "node:util";
import { parseDatabase, type Parsed } from "../config/config.ts";
import { escapeHidden, hiddenCharacter } from "../otp/hidden-characters.ts";
import { readOwnFile } from "../own-files.ts";
import { NoDatabase, requireDatabase } from "../store/existing.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import { openStore, type Database } from "../store/open.ts";
import type { Store, StoreWatchers } from "../store/store.ts";
import { createSystem, type System } from "../system.ts";

/** A command that cannot go on, with a sentence for its user. */
export class Unusable extends Error {}

/** A command line that was not understood. */
export class Misused extends Unusable {}

export interface Command {
  /** What it does, in a line. */
  readonly summary: string;
  /** The whole of its --help. */
  readonly help: string;
  readonly run: (args: string[]) => Promise<void>;
}

/** Commands by name, which may have two words. Not for look-ups of what was typed: `constructor` is there too. */
export type Commands = Readonly<Record<string, Command>>;

/** Opens the database beside a server that may be running, and closes it again. */
export async function withStore(
  act: (store: Store, system: System) => Promise<void>,
  watchers: Pick<StoreWatchers, "chargeOf"> = {},
): Promise<void> {
  const database = valueOf("otpd cannot open its database", parseDatabase(process.env, readText));
  const system = createSystem();
  const store = await openExisting(database, system, watchers);
  try {
    await act(store, system);
  } finally {
    await store.close();
  }
}

/** Opens a database that exists. Where there is no database, the path or the folder is wrong, so a command makes none. */
export async function openExisting(
  database: Database,
  system: System,
  { chargeOf }: Pick<StoreWatchers, "chargeOf"> = {},
): Promise<Store> {
  try {
    await requireDatabase(database);
  } catch (error) {
    if (!(error instanceof NoDatabase)) throw error;
    const isNamed = process.env["OTP_DATABASE_URL"] || process.env["OTP_DATABASE_URL_FILE"];
    const why = isNamed ? "OTP_DATABASE_URL names it" : "It is looked for there while OTP_DATABASE_URL is not set";
    throw new Unusable(
      `${sentence(error.message)} ${why}. Nothing was made: only otpd serve, restore and copy make a database.`,
      { cause: error },
    );
  }
  return openStore({ database, system, exclusive: false, chargeOf });
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** The text of a file that a variable or an option names. Throws where it cannot be read. */
export function readText(path: string): string {
  return readFileSync(path, "utf8");
}

/** The text of a file that an option names; else ends the command with why it cannot be read. */
export function readNamed(option: string, path: string): string {
  try {
    return readText(path);
  } catch (error) {
    throw new Unusable(`${option} names a file that ${fileTrouble(error) ?? "cannot be read"}.`);
  }
}

/** The parsed value; else ends the command with all faults. */
export function valueOf<T>(trouble: string, parsed: Parsed<T>): T {
  if (parsed.ok) return parsed.value;
  throw new Unusable(`${trouble}:\n${parsed.faults.map((fault) => `  - ${fault}`).join("\n")}`);
}

/** The one argument of a command line; else ends the command with what is wanted. */
export function single(positionals: readonly string[], wanted: string): string {
  const [argument, ...more] = positionals;
  if (argument === undefined || more.length > 0) throw new Misused(wanted);
  return argument;
}

/** Ends the command for a text with hidden characters. */
export function refuseHidden(option: string, text: string): void {
  const odd = hiddenCharacter(text);
  if (odd !== undefined) throw new Misused(`${option} must be one line of visible text: ${odd} is in it.`);
}

/** Reads a command line. Of an option that is given twice and may not be, all but the last would be lost unseen. */
export function parseArgs<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseAny<T>> {
  const { options = {} } = config;
  const { tokens, ...parsed } = parseAny({ ...config, tokens: true });
  const given = (tokens ?? []).flatMap((token) => (token.kind === "option" ? [token.name] : []));
  const once = given.filter((name) => options[name]?.type === "string" && options[name].multiple !== true);
  const twice = once.find((name, at) => once.indexOf(name) < at);
  if (twice !== undefined) throw new Misused(`--${twice} is given twice.`);
  return parsed as ReturnType<typeof parseAny<T>>;
}

export const tenantOption = { type: "string", default: "default" } as const;

/** An option without a value. */
export const flag = { type: "boolean", default: false } as const;

/** The columns of a table: their heads, and what is in a row's cell. */
type Columns<Row> = Readonly<Record<string, (row: Row) => string | null>>;

/** Rows as lines below a head, in columns as wide as their widest cell; null is a dash. */
export function table<Row>(rows: readonly Row[], columns: Columns<Row>): string {
  const cells = Object.entries(columns).map(([head, cellOf]) => {
    const column = [head, ...rows.map((row) => escapeHidden(cellOf(row) ?? "-"))];
    const width = Math.max(...column.map(({ length }) => length));
    return column.map((cell) => cell.padEnd(width));
  });
  const lines = ["", ...rows].map((_, line) => cells.map((column) => column[line]).join("  "));
  return lines.map((line) => line.trimEnd()).join("\n");
}

/** Prints a list: as JSON, as a table, or `none` where nothing is in it. */
export function sayList<Row>(rows: readonly Row[], isJson: boolean, none: string, columns: Columns<Row>): void {
  if (isJson) say(JSON.stringify(rows));
  else sayTable(rows, none, columns);
}

/** Prints rows as a table, or a sentence where there are none. */
export function sayTable<Row>(rows: readonly Row[], none: string, columns: Columns<Row>): void {
  say(rows.length === 0 ? none : table(rows, columns));
}

/** The one argument of a command line that takes no options. */
export function onlyArgument(args: string[], wanted: string): string {
  return single(parseArgs({ args, options: {}, allowPositionals: true }).positionals, wanted);
}

/** What an error says of itself, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The version in package.json. */
export function version(): string {
  return (JSON.parse(readOwnFile("package.json").toString()) as { version: string }).version;
}

export function say(text: string): void {
  process.stdout.write(`${visible(text)}\n`);
}

export function sayError(text: string): void {
  process.stderr.write(`${visible(text)}\n`);
}

/** Stored or typed text must not reverse a line or move the cursor. */
function visible(text: string): string {
  return text.split("\n").map(escapeHidden).join("\n");
}
