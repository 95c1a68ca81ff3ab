/**
 * Ports that are known before anybody listens on them. They are below those that the system hands out by itself (from
 * 32768 on where nobody has set it otherwise): what listens on port 0 meanwhile, or connects, never gets one of them. Test
 * files that run side by side have ports of their own.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

const count = 1_500;
const first = 20_000 + (Number(process.env["VITEST_POOL_ID"] ?? 0) % 8) * count;
/** Each process begins elsewhere, since another run may be under way beside this one. */
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
