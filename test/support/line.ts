/**
 * The network between a client and the service, which a test can cut.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface Line {
  /** What to call instead of the service. */
  readonly url: string;
  /** Ends every connection at once, with whatever is on its way. New ones work. */
  cut(): void;
  close(): Promise<void>;
}

/** Lays a line to the service at `url`. */
export async function layLine(url: string): Promise<Line> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
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
  const cut = () => {
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
