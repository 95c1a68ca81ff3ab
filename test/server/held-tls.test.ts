/** What TLS has made of answers, and the client does not take, is held for it too. */
import { once } from "node:events";
import { connect, createServer, Socket, type AddressInfo } from "node:net";
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { createConnection, moveTo } from "../../src/server/listener/connection.ts";
import type { Response } from "../../src/server/listener/exchange.ts";
import { createHeld } from "../../src/server/listener/held.ts";
import { createSendQueues } from "../../src/server/listener/send-queues.ts";
import { Wire } from "../../src/server/listener/wire.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";

/** More than the system takes of a connection by itself. */
const answerBytes = 33_554_432;

/** A connection by TLS, as the listener has it, whose client reads nothing. */
async function openIdle(certificate: { cert: string; key: string }) {
  const tls = createTlsServer(certificate);
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const client = connect((listener.address() as AddressInfo).port, "127.0.0.1");
  const [below] = (await once(listener, "connection")) as [Socket];
  const wire = new Wire(below);
  const connection = createConnection(below, wire, "192.0.2.1", 0, 0);
  tls.emit("connection", wire);
  const secured = once(tls, "secureConnection") as Promise<[TLSSocket]>;
  const reading = connectTls({ socket: client, rejectUnauthorized: false });
  reading.on("error", () => {});
  const [socket] = await secured;
  socket.on("error", () => {});
  moveTo(connection, socket, 0);
  onTestFinished(() => {
    client.destroy();
    below.destroy();
    listener.close();
  });
  return { connection, socket, reading };
}

describe.skipIf(lacks("answers by TLS", "openssl"))("with a certificate", () => {
  test("whoever has TLS hold more than strangers may, and takes none of it, loses the connection", async () => {
    const { cert, key } = makeCertificate("held");
    const [greedy, modest] = [await openIdle({ cert, key }), await openIdle({ cert, key })];
    const held = createHeld(new Map(), createSendQueues({ ownAddressOf: () => undefined }));
    onTestFinished(() => held.end());
    for (const { connection } of [greedy, modest]) held.opened(connection);
    greedy.socket.write(Buffer.alloc(answerBytes));
    for (const { connection } of [greedy, modest]) held.note(connection);
    expect(greedy.socket.destroyed).toBe(true);
    expect(modest.socket.destroyed).toBe(false);
  });

  test.each([
    ["stays with the little that each takes", 1_568, false],
    ["goes with more", 4_096, true],
  ])("of many who begin TLS the first one %s", async (_, bytes, goes) => {
    const { connection } = await openIdle(makeCertificate("held"));
    const held = createHeld(new Map(), createSendQueues({ ownAddressOf: () => undefined }));
    onTestFinished(() => held.end());
    const answer = { writableEnded: false, req: { complete: true } } as Response;
    const beginners = Array.from({ length: Math.ceil(5_000_000 / bytes) }, () => {
      const wire = new Wire(new Socket(), undefined, () => {});
      const beginner = createConnection(connection.socket, wire, "192.0.2.1", 0, 0);
      beginner.socket = new Socket();
      held.opened(beginner);
      held.hold(beginner, answer, bytes);
      return beginner;
    });
    // In the turn in which they ask all stay.
    expect(beginners[0]?.socket.destroyed).toBe(false);
    await new Promise((resolve) => setImmediate(resolve));
    held.makeRoom();
    expect(beginners[0]?.socket.destroyed).toBe(goes);
  });

  test.each([
    ["what was small is held no more once it is taken", 10_000, [0, 0]],
    ["what was large leaves the room that TLS keeps for it", 100_000, [50_000, 100_000]],
  ] as const)("%s", async (_, bytes, [least, most]) => {
    const { cert, key } = makeCertificate("held");
    const { connection, socket, reading } = await openIdle({ cert, key });
    const held = createHeld(new Map(), createSendQueues({ ownAddressOf: () => undefined }));
    onTestFinished(() => held.end());
    held.opened(connection);
    const taken = new Promise((resolve) => socket.write(Buffer.alloc(bytes), resolve));
    held.note(connection);
    expect(connection.bytesNoted).toBeGreaterThan(bytes);
    reading.resume();
    await taken;
    held.note(connection);
    expect(connection.bytesNoted).toBeGreaterThanOrEqual(least);
    expect(connection.bytesNoted).toBeLessThanOrEqual(most);
  });
});
