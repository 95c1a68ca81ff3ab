/**
 * What the system has yet to send on each connection over TCP, by Linux's table of them. Node has no call for it.
 */
import { readFileSync, readlinkSync } from "node:fs";
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

/** Reads the tables: nothing on a system that has none. Undefined where they cannot be read just now. */
export function readTables(): string | undefined {
  try {
    return tables.map(readTable).join("");
  } catch {
    return undefined;
  }
}

function readTable(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    // Other systems have neither, and one without IPv6 lacks its own.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

/** Finds all queues that are not empty in what was read. */
export function queuesIn(text: string | undefined): SystemQueue[] | undefined {
  return text === undefined ? undefined : [...text.matchAll(queued)].map(queueOf);
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
