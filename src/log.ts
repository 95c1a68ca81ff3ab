/**
 * The log's entries as JSON lines: a level, the time, what all entries have, an entry's own fields, and its message. Written as
 * pino writes them, whose levels and names many tools know.
 */
import type { LogLines } from "./log-lines.ts";
import { machineTime } from "./system.ts";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

const numbers: Record<LogLevel, number> = {
  trace: 10,
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
  silent: Number.POSITIVE_INFINITY,
};

/** Those that are undefined are left out. */
type Fields = Readonly<Record<string, unknown>>;

/** Writes an entry. */
type Entry = (fields: Fields, message: string) => void;

export interface Log extends Readonly<Record<"debug" | "info" | "warn" | "error", Entry>> {
  /** Whether entries of this level are written. */
  isTold(level: LogLevel): boolean;
}

/** Makes a log of the entries from `least` on. `common` is in each of them. */
export function createLog(least: LogLevel, common: Fields, lines: LogLines): Log {
  const isTold = (level: LogLevel) => numbers[level] >= numbers[least];
  function entry(name: LogLevel): Entry {
    if (!isTold(name)) return () => {};
    const level = numbers[name];
    return (fields, msg) => {
      lines.write(`${JSON.stringify({ level, time: machineTime(), ...common, ...fields, msg })}\n`);
    };
  }
  return { isTold, debug: entry("debug"), info: entry("info"), warn: entry("warn"), error: entry("error") };
}
