/**
 * Ports that are known before anybody listens on them. They are below those that the system hands out by itself (from
 * 32768 on where nobody has set it otherwise): what listens on port 0 meanwhile, or connects, never gets one of them.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

const [first, count] = [20_000, 12_000];
/** Each process begins elsewhere. */
let next = randomInt(count);

/** A port of 127.0.0.1 that nobody listens on, nor will unless told to. */
export async function freePort(): Promise<number> {
  for (;;) {
    next = (next + 1) % count;
    const port = first + next;
    const server = createServer();
    server.listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
