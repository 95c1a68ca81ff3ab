/**
 * What the system has yet to send on each connection over TCP, by Linux's table of them. Node has no call for it.
 */
import { closeSync, openSync, readlinkSync, readSync } from "node:fs";
import type { Socket } from "node:net";
import { handleOf } from "./handle.ts";

export interface SystemQueue {
  /** Whose it is; "0" where the socket was closed and the system still has to send. */
  readonly inode: string;
  /** The other side's address as the table has it, in hexadecimal. */
  readonly peer: string;
  /** Our port. */
  readonly port: number;
  /** Handed to the system, and not yet acknowledged by the other side. */
  readonly bytes: number;
}

const tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/** Our port, the peer's address, what is queued, and the inode. Lines with nothing queued, or the one byte that an end is, are passed over. */
const queued =
  /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) ([0-9A-F]+):[0-9A-F]{4} [0-9A-F]{2} (?!0{7}[01]:)([0-9A-F]{8}):\S+ \S+ \S+ +\d+ +\d+ (\d+) /gm;

/** The system gives a page with each read, some 27 connections, and takes 45 μs for it. */
const pageBytes = 4_096;
/** No line is longer. */
const lineBytesMax = 256;
/** So much is read without a pause: some 3 ms. */
const sliceBytes = 262_144;

/**
 * Finds all queues that are not empty: none on a system without tables. Pauses now and then, since a table of 56,000
 * connections takes 80 to 110 ms. Throws where the tables cannot be read just now.
 */
export function* readQueues(paths: readonly string[] = tables): Generator<void, SystemQueue[]> {
  const queues: SystemQueue[] = [];
  let bytes = 0;
  for (const path of paths) {
    for (const lines of linesOf(path)) {
      queues.push(...queuesIn(lines));
      bytes += lines.length;
      if (bytes < sliceBytes) continue;
      bytes = 0;
      yield;
    }
  }
  return queues;
}

/** Reads a table, some lines at a time. */
function* linesOf(path: string): Generator<string> {
  const table = open(path);
  if (table === undefined) return;
  try {
    const page = Buffer.allocUnsafe(pageBytes);
    let begun = "";
    // Behind the end each read has the system go through the whole table, 7 ms, for the few that have come since.
    for (let bytes = pageBytes; bytes > pageBytes - lineBytesMax;) {
      bytes = readSync(table, page, 0, pageBytes, null);
      const text = begun + page.toString("latin1", 0, bytes);
      const end = text.lastIndexOf("\n") + 1;
      begun = text.slice(end);
      yield text.slice(0, end);
    }
  } finally {
    closeSync(table);
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    // Other systems have neither, and one without IPv6 lacks its own.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Finds those that are not empty in lines of a table. */
export function queuesIn(lines: string): SystemQueue[] {
  return [...lines.matchAll(queued)].map(queueOf);
}

function queueOf([, port = "", peer = "", bytes = "", inode = ""]: RegExpExecArray): SystemQueue {
  return { inode, peer, port: Number.parseInt(port, 16), bytes: Number.parseInt(bytes, 16) };
}

/** Reads an address as the tables have it: words of a little-endian machine. IPv6 comes out in full. */
export function addressIn(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => (word.match(/../g) ?? []).toReversed());
  if (bytes.length === 4) return bytes.map((byte) => Number.parseInt(byte, 16)).join(".");
  return (bytes.join("").match(/.{4}/g) ?? []).join(":");
}

/** Reads a socket's inode, by which the tables name it; undefined where it cannot be read. */
export function inodeOf(socket: Socket): string | undefined {
  try {
    return /\d+/.exec(readlinkSync(`/proc/self/fd/${handleOf(socket)?.fd}`))?.[0];
  } catch {
    return undefined;
  }
}

/** How much of what was written to a socket the system has taken, since the connection began. */
export function bytesHandedOver(socket: Socket): number | undefined {
  const handle = handleOf(socket);
  return handle && handle.bytesWritten - handle.writeQueueSize;
}
