/**
 * The listener by itself: that it stops, whatever its peers do.
 */
import { once } from "node:events";
import { connect } from "node:http2";
import { createConnection } from "node:net";
import { expect, test } from "vitest";
import type { RequestHandler } from "../../src/server/listener/exchange.ts";
import { createOwnAddressOf } from "../../src/server/http/client-address.ts";
import { createPace } from "../../src/server/listener/pace.ts";
import { createConnections } from "../../src/server/listener/connections.ts";
import { connectionLimits, startServer } from "../../src/server/listener/server.ts";
import { openRaw } from "../support/clients/raw.ts";

const faults: unknown[] = [];

function listenWith(handle: RequestHandler["handle"], more: Partial<RequestHandler> = {}) {
  const handler: RequestHandler = {
    handle,
    refuseUnserved() {},
    answerUnreadable() {},
    drain: () => Promise.resolve(),
    ...more,
  };
  const connections = createConnections({
    pace: createPace(),
    ...connectionLimits,
    idleMs: 60_000,
    maxAgeMs: 0,
    connectionsMax: 100,
    ownAddressOf: createOwnAddressOf([]),
    isProxy: () => false,
  });
  const onFault = (error: unknown) => void faults.push(error);
  return startServer({ handler, connections, host: "127.0.0.1", port: 0, onFault });
}

test.each(["", "GET / HTTP/1.1\r\nhost: x\r\n", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", "PRI * HT"])(
  "a peer that sent %j and never lets go does not keep the server from stopping",
  async (bytes) => {
    const server = await listenWith((_, response) => void response.end("yes"));
    const socket = createConnection({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(bytes);
    await server.stop(100);
    socket.destroy();
    expect(faults).toEqual([]);
  },
);

test("an HTTP/2 peer that never ends its stream does not keep the server from stopping", async () => {
  const server = await listenWith((_, response) => void response.end("no"));
  const socket = createConnection({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  const session = connect("http://peer", { createConnection: () => socket });
  session.on("error", () => {});
  const stream = session.request({ ":method": "POST", ":path": "/" }, { endStream: false });
  stream.on("error", () => {});
  await once(stream, "response");
  // Deaf from here on: it hears neither GOAWAY nor the end of the connection.
  socket.pause();
  await server.stop(100);
  socket.destroy();
  expect(faults).toEqual([]);
});

test("a call on an idle connection is answered during a stop, though the process stood still for as long as that takes", async () => {
  const answered = Promise.withResolvers<void>();
  const server = await listenWith((_, response) => void response.end("no"), {
    drain() {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
      idle.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
      return answered.promise;
    },
  });
  const idle = await openRaw(server.port);
  idle.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await idle.until((bytes) => (bytes.includes("no") ? true : undefined));
  const before = idle.text().length;
  const stopped = server.stop(60_000);
  await idle.closed;
  answered.resolve();
  await stopped;
  expect(idle.text().slice(before)).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
});

test("of bytes that are no request nothing is kept for as long as their answer takes", async () => {
  const said = Promise.withResolvers<object>();
  const server = await listenWith(() => {}, {
    answerUnreadable(error, socket) {
      said.resolve(error);
      socket.destroy();
    },
  });
  const peer = await openRaw(server.port);
  peer.write("x".repeat(60_000));
  // Node's own error has them as `rawPacket`.
  expect(await said.promise).toEqual({ code: "HPE_INVALID_METHOD" });
  await server.stop(100);
});
