/**
 * A process of its own with sessions over HTTP/2 that go, and are collected in the very turn of the event loop in which they went:
 * what another connection sends in that turn has it done. Ends with 0 unless Node ends it.
 */
import { once } from "node:events";
import { createServer as createHttp2Server } from "node:http2";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { watchSessions } from "../../../src/server/listener/http2-sessions.ts";
import { flag, frame, frameType, headerBlock, preface, settings } from "../clients/raw.ts";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as NodeJS.GCFunction;

const http2 = createHttp2Server({ maxHeaderListPairs: 100 });
watchSessions(http2);
const collecting = createServer((socket) => socket.on("data", () => gc()));

const head = headerBlock({ ":method": "GET", ":scheme": "http", ":path": "/", ":authority": "otpd" });
const many = Array.from({ length: 140 }, (_, i) => [`x-${i}`, "v".repeat(100)] as const);
const block = Buffer.concat([head, headerBlock(Object.fromEntries(many))]);
// Node resets such a stream by itself, and a session that has none ends with a goodbye.
const goodbye = Buffer.concat([
  Buffer.from(preface),
  settings(),
  frame(frameType.headers, flag.endHeaders | flag.endStream, 1, block),
  frame(frameType.goaway, 0, 0, Buffer.alloc(8)),
]);

async function connectTo(server: Server): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}

for (const server of [http2, collecting]) await once(server.listen(0, "127.0.0.1"), "listening");
for (let i = 0; i < 20; i += 1) {
  const taken = [once(http2, "connection"), once(collecting, "connection")];
  const [leaver, collector] = [await connectTo(http2), await connectTo(collecting)];
  await Promise.all(taken);
  leaver.resume();
  // Both are there when the loop looks next, in this order.
  leaver.write(goodbye);
  collector.write("x");
  await once(leaver, "close");
  collector.destroy();
}
process.exit(0);
