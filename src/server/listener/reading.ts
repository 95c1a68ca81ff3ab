/**
 * What reads from a socket, whoever is handed what it reads: of Node's own, for where a socket cannot be paused by itself.
 */
import type { Socket } from "node:net";

interface Handle {
  readonly reading?: boolean;
  readStop(): void;
  readStart(): void;
}

/** Undocumented; without it turns have no bound. */
export function handleOf(socket: Socket): Handle | undefined {
  // oxlint-disable-next-line no-underscore-dangle -- HTTP/2 reads past the socket, which cannot pause it
  return socket.destroyed ? undefined : ((socket as unknown as { _handle?: Handle | null })._handle ?? undefined);
}
