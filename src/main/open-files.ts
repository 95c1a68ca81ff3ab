/**
 * How many connections there are files for. A process that has opened all it may takes no connection, whoever comes, and
 * reaches neither its providers nor its database.
 */
import { readFileSync } from "node:fs";

/** What connections may have of all files: the rest is for calls to providers, of which there may be many, and the database. */
const connectionsPart = 3 / 4;

/** Tells how many connections this process has files for, as Linux tells it; undefined elsewhere, and where there is no limit. */
export function connectionsWithinFiles(): number | undefined {
  try {
    // Node has made the soft limit as large as the hard one by now.
    const [, files] = /^Max open files +(\d+) /m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
    return files === undefined ? undefined : Math.floor(Number(files) * connectionsPart);
  } catch {
    return undefined;
  }
}
