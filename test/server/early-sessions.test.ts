/**
 * A session over HTTP/2 that is destroyed before Node has handed it what came with its first bytes: that ends the connection
 * alone, and not the process.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createHttp2 } from "../../src/server/listener/http2.ts";
import { serverLimits } from "../../src/server/listener/server.ts";

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
const nobody = () => {};

test("a session that goes in the step in which it came ends its connection alone", async () => {
  const listeners = { onRequest: nobody, onExpectation: nobody, onConnect: nobody };
  const takeHttp2 = createHttp2(serverLimits, listeners, {
    isProxys: () => false,
    upgraded: (_, session) => session.destroy(),
  });
  // As where a connection is told apart by its first bytes.
  const server = createServer((socket: Socket) => {
    socket.once("readable", () => {
      socket.unshift(socket.read());
      takeHttp2(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.write(Buffer.concat([Buffer.from(preface), emptySettings]));
  await once(client.resume(), "close");
  expect(client.bytesWritten).toBeGreaterThan(0);
  server.close();
});
