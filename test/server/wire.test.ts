/** What TLS is handed of a connection's bytes: records are counted as they are, and a few are handed over at a time. */
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Wire } from "../../src/server/listener/wire.ts";

const record = (type: number, bytes: number) =>
  Buffer.concat([Buffer.from([type, 3, 3, bytes >> 8, bytes & 255]), Buffer.alloc(bytes)]);
const [handshake, content] = [22, 23];
const times = (count: number, make: () => Buffer) => Buffer.concat(Array.from({ length: count }, make));

async function open(handshakeRecords?: number): Promise<{ socket: PassThrough; wire: Wire; handed: Buffer[] }> {
  const socket = new PassThrough();
  const wire = new Wire(socket as unknown as Socket, handshakeRecords);
  const handed: Buffer[] = [];
  wire.on("data", (piece: Buffer) => handed.push(piece));
  wire.resume();
  await nextTurn();
  return { socket, wire, handed };
}

test("records are counted however they are cut into pieces, and empty ones too", async () => {
  const bytes = Buffer.concat([record(content, 300), record(content, 0), record(content, 1), record(content, 16_384)]);
  for (const pieceBytes of [1, 2, 5, 7, 305, bytes.length]) {
    const { socket, wire, handed } = await open();
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      socket.write(bytes.subarray(at, at + pieceBytes));
      if (at % 4_096 === 0) await nextTurn();
    }
    await nextTurn();
    expect(Buffer.concat(handed)).toEqual(bytes);
    expect(wire).toMatchObject({ records: 4, bytesRead: bytes.length });
  }
});

test("a record of a handshake counts for 64, since our key has to work for it", async () => {
  const { socket, wire } = await open();
  socket.write(Buffer.concat([record(handshake, 200), record(content, 10)]));
  await nextTurn();
  expect(wire.records).toBe(65);
});

test("the first record of a handshake counts for more with a key that takes longer", async () => {
  const { socket, wire } = await open(216);
  socket.write(Buffer.concat([record(handshake, 200), record(handshake, 10)]));
  await nextTurn();
  expect(wire.records).toBe(216 + 64);
});

test("1,000 records in one chunk are handed over 256 at a time, and none once it is told to stop", async () => {
  const bytes = times(1_000, () => record(content, 18));
  const { socket, wire, handed } = await open();
  wire.on("data", () => wire.stop());
  socket.write(bytes);
  const counts: number[] = [];
  do {
    await nextTurn();
    counts.push(handed.splice(0).reduce((sum, { length }) => sum + length, 0) / 23);
    wire.goOn();
  } while (counts.reduce((sum, count) => sum + count, 0) < 1_000);
  expect(counts).toEqual([256, 256, 256, 232]);
});

test("bytes that wait are known, and so is the end of the other side", async () => {
  const { socket, wire, handed } = await open();
  wire.stop();
  socket.write(record(content, 100));
  await nextTurn();
  expect(handed).toEqual([]);
  expect(wire.bytesWaiting).toBe(105);
  const ended = new Promise((resolve) => wire.once("end", resolve));
  wire.goOn();
  socket.end();
  await ended;
  expect(wire.bytesWaiting).toBe(0);
  expect(handed).toEqual([record(content, 100)]);
});
