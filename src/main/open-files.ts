/**
 * How many connections there are files for. A process that has all its files open takes no connection, and reaches neither
 * its providers nor its database.
 */
import { readFileSync } from "node:fs";

/** The part of all files for connections. The rest is for the database and for calls of providers, which may be many. */
const connectionsPart = 3 / 4;

/** The connections that this process has files for, on Linux; undefined elsewhere, and where there is no limit. */
export function connectionsWithinFiles(): number | undefined {
  try {
    // Node has made the soft limit as large as the hard one by now.
    const [, files] = /^Max open files +(\d+) /m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
    return files === undefined ? undefined : Math.floor(Number(files) * connectionsPart);
  } catch {
    return undefined;
  }
}
