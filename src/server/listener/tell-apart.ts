/**
 * HTTP/1.1 and HTTP/2 on one cleartext port, told apart by a connection's first bytes.
 */
import type { Server as Http1Server } from "node:http";
import type { Socket } from "node:net";
import type { Connections } from "./connections.ts";

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** Puts a look at the first bytes before the HTTP/1 server's own handling of a connection. */
export function tellApart(
  http1: Http1Server,
  takeHttp2: (socket: Socket) => void,
  takePiecewise: (socket: Socket) => void,
  connections: Connections,
): void {
  const [takeHttp1] = http1.listeners("connection") as ((socket: Socket) => void)[];
  if (takeHttp1 === undefined) throw new Error("node:http no longer listens for its own connections");
  http1.removeAllListeners("connection");
  http1.on("connection", (socket: Socket) => {
    if (!connections.opened(socket)) return;
    socket.setNoDelay(true);
    const onGone = () => socket.destroy();
    // For good: node takes its own listener off a socket on which a client asks for a tunnel, and who resets that ends the process.
    socket.on("error", onGone);
    socket.once("end", onGone);
    let seen: Buffer = Buffer.alloc(0);
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const compared = Math.min(seen.length, preface.length);
      const isHttp2 = seen.subarray(0, compared).equals(preface.subarray(0, compared));
      if (isHttp2 && compared < preface.length) return;
      socket.off("readable", onReadable);
      socket.off("end", onGone);
      socket.unshift(seen);
      if (isHttp2) {
        takeHttp2(socket);
      } else {
        takeHttp1.call(http1, socket);
        takePiecewise(socket);
        // Reading by hand has stopped the flow.
        socket.resume();
      }
    };
    socket.on("readable", onReadable);
  });
}
