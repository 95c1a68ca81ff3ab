/** How much is read of all connections ahead of their turns, however many of them send at once. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createConnection } from "../../src/server/listener/connection.ts";
import { createPace } from "../../src/server/listener/pace.ts";
import { Untold } from "../../src/server/listener/tell-apart.ts";

const [count, bytesEach] = [60, 60_000];
/** What strangers may cost in a turn, and the piece that was too much. */
const bytesMax = 262_144 + 65_536;

test("what many send at once stays with the system once it is too much for a turn, and comes with their own", async () => {
  const server = createServer({ highWaterMark: 16_384 }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const taken: Socket[] = [];
  server.on("connection", (socket) => taken.push(socket));
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: count }, () => connect(port, "127.0.0.1"));
  await Promise.all(clients.map((client) => once(client, "connect")));
  while (taken.length < count) await nextTurn();

  const pace = createPace();
  const came = new Map<Socket, number>();
  for (const socket of taken) {
    const untold = new Untold(socket, () => {
      socket.on("data", (chunk: Buffer) => came.set(socket, (came.get(socket) ?? 0) + chunk.length));
      socket.resume();
    });
    const connection = createConnection(socket, undefined, "192.0.2.1", 0, 0);
    connection.untold = untold;
    pace.taken();
    pace.opened(connection);
  }
  for (const client of clients) client.write("x".repeat(bytesEach));
  await nextTurn();
  const readAhead = taken.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
  expect(readAhead).toBeGreaterThan(0);
  expect(readAhead).toBeLessThan(bytesMax);

  while ([...came.values()].reduce((sum, bytes) => sum + bytes, 0) < count * bytesEach) await nextTurn();
  expect(new Set(came.values())).toEqual(new Set([bytesEach]));
  for (const client of clients) client.destroy();
  server.close();
  await once(server, "close");
});
