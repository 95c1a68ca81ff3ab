/**
 * Node's own half of a socket: what reads from it, whoever is handed what it reads, and what knows how much was written.
 */
import type { Socket } from "node:net";

interface Handle {
  readonly reading?: boolean;
  readStop(): void;
  readStart(): void;
  /** The file descriptor; -1 where there is none. */
  readonly fd: number;
  /** All that was to be written so far, and what of it the system has not taken yet. */
  readonly bytesWritten: number;
  readonly writeQueueSize: number;
}

/** Undocumented; without it turns and the system's queues have no bound. */
export function handleOf(socket: Socket): Handle | undefined {
  // oxlint-disable-next-line no-underscore-dangle -- HTTP/2 reads past the socket, which cannot pause it
  return socket.destroyed ? undefined : ((socket as unknown as { _handle?: Handle | null })._handle ?? undefined);
}
