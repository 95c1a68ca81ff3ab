/**
 * The network between a client and the service, which a test can cut.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface Line {
  /** What to call instead of the service. */
  readonly url: string;
  /** Ends every connection at once, with whatever is on its way; of new ones, so many as well. */
  cut(andNew?: number): void;
  close(): Promise<void>;
}

/** Lays a line to the service at `url`. */
export async function layLine(url: string): Promise<Line> {
  const sockets = new Set<Socket>();
  let toRefuse = 0;
  const server = createServer((near) => {
    if (toRefuse > 0) {
      toRefuse -= 1;
      near.destroy();
      return;
    }
    const far = connect(Number(new URL(url).port), "127.0.0.1");
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.pipe(other);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (andNew = 0) => {
    toRefuse = andNew;
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    async close() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
