/**
 * How many connections a process has room for. One that has all its files open takes no connection, and reaches neither its
 * providers nor its database. One that outgrows its memory is ended.
 */
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";

/** The part of all files for connections, operators' among them. The rest is for the database and for calls of providers, which may be many. */
const connectionsPart = 3 / 4;
/** Operators and their tools are few: strangers are to find no more room at their port than this, and this part of all files. */
const operatorsMax = 256;
const operatorsPart = 1 / 8;
/** What the process takes under load beside connections at rest, what strangers may have it hold among it. */
const restBytes = 224 * 1_048_576;
/**
 * What a connection at rest takes at most, measured: 27 KB, and 132 over TLS (docs/operate.md); 93 and 223 of clients who fill HTTP/2's
 * table of headers, send half a header block and a long first message, and take answers. Most of it is outside of V8's heap,
 * so collecting does not help.
 */
const connectionBytes = { cleartext: 96 * 1_024, tls: 224 * 1_024 } as const;

/** Where memory is smaller than that, some connections have to be there all the same. */
const connectionsMin = 256;

/** A bound on connections, and what it comes from. */
export interface Room {
  readonly connectionsMax: number;
  readonly cause: string;
}

/** How many connections callers may have: as many as files, less the operators' where their port is on, and memory allow. */
export function roomForConnections(kind: keyof typeof connectionBytes, hasOperators: boolean): Room {
  const fileCount = filesMax();
  const ofOperators = hasOperators ? roomForOperators(fileCount) : 0;
  const withinFiles = Math.floor(fileCount * connectionsPart) - ofOperators;
  const files = { connectionsMax: withinFiles, cause: "may open so few files (ulimit -n)" };
  const memory = { connectionsMax: withinMemory(kind), cause: "may take so little memory" };
  return files.connectionsMax < memory.connectionsMax ? files : memory;
}

/** How many connections the operators' port may have. */
export function roomForOperators(fileCount = filesMax()): number {
  return Math.min(operatorsMax, Math.floor(fileCount * operatorsPart));
}

/** How many files the process may have open. Without a limit, or where it cannot be told, that is any number. */
function filesMax(): number {
  try {
    // Node has made the soft limit as large as the hard one by now.
    const [, files] = /^Max open files +(\d+) /m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
    return files === undefined ? Number.POSITIVE_INFINITY : Number(files);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function withinMemory(kind: keyof typeof connectionBytes): number {
  // That of its container; 0, or more than there is, where it has none.
  const limit = process.constrainedMemory();
  const bytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return Math.max(connectionsMin, Math.floor((bytes - restBytes) / connectionBytes[kind]));
}
