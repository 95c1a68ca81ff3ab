/**
 * Sessions over HTTP/2 that end early: one that is destroyed before Node has handed it what came with its first bytes ends its
 * connection alone, and not the process. And a connection whose client says goodbye is gone, whatever became of its session.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createHttp2 } from "../../src/server/listener/http2.ts";
import { serverLimits } from "../../src/server/listener/server.ts";
import { callFrames, frame, frameType, openRaw, preface, settings } from "../support/clients/raw.ts";
import { startListener, testKey } from "../support/service/listener.ts";
import { holdTicks, releaseTicks } from "../support/service/ticks.ts";

const nobody = () => {};

test("a session that goes in the step in which it came ends its connection alone", async () => {
  const listeners = { onRequest: nobody, onContinue: nobody, onExpectation: nobody, onConnect: nobody };
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
  client.write(Buffer.concat([Buffer.from(preface), settings()]));
  await once(client.resume(), "close");
  expect(client.bytesWritten).toBeGreaterThan(0);
  server.close();
});

test.each([
  ["at once", false],
  ["after a call", true],
])("a client that says goodbye %s and ends leaves no connection behind", async (_, calls) => {
  // No tick is to find it.
  holdTicks();
  onTestFinished(releaseTicks);
  const listener = await startListener({});
  const client = await openRaw(listener.port);
  client.write(preface, settings());
  for (const call of calls ? [callFrames(listener.port, 1, testKey)] : []) client.write(call);
  await listener.answered(calls ? 1 : 0);
  client.write(frame(frameType.goaway, 0, 0, Buffer.alloc(8)));
  client.socket.end();
  await expect(listener.open(0)).resolves.toBeUndefined();
  await listener.stop(0);
});
