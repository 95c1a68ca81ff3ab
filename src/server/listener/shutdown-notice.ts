/**
 * The first of the two GOAWAYs that make an end graceful (RFC 9113, 6.8): it names the highest stream there can be, so it
 * asks the client to go elsewhere while calls that are already on their way are still taken.
 *
 * node:http2 cannot say it: after any GOAWAY of its own it drops new streams without an answer, even those that this
 * GOAWAY promised to take. So the frame is written past it, straight to the socket, and only while nothing else waits
 * to be written there: then it lands between two whole frames. The Socket's own write() would confuse the session,
 * which takes the completion of every write for one of its own. With TLS there is no such way.
 */
import { writeSync } from "node:fs";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { handleOf } from "./handle.ts";

// Length 8, type GOAWAY, no flags, stream 0; last stream 2^31-1, NO_ERROR.
const notice = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/** Sends the notice on a connection that speaks HTTP/2. False when it cannot be sent now. */
export function sendShutdownNotice(socket: Socket): boolean {
  if (socket instanceof TLSSocket) return false;
  const { fd, writeQueueSize } = handleOf(socket) ?? {};
  if (fd === undefined || fd < 0 || writeQueueSize !== 0) return false;
  try {
    if (writeSync(fd, notice) === notice.length) return true;
    // A part of a frame is worse than none.
    socket.destroy();
    return false;
  } catch {
    // The socket's buffer is full: a client that does not read would not read this either.
    return false;
  }
}
