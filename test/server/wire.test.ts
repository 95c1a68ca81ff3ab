/** What TLS is handed of a connection's bytes: records are counted as they are, and a few are handed over at a time. */
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { Wire } from "../../src/server/listener/wire.ts";

const record = (type: number, bytes: number) =>
  Buffer.concat([Buffer.from([type, 3, 3, bytes >> 8, bytes & 255]), Buffer.alloc(bytes)]);
const [handshake, content] = [22, 23];
const times = (count: number, make: () => Buffer) => Buffer.concat(Array.from({ length: count }, make));

async function open(
  handshakeRecords?: number,
  begin?: () => void,
): Promise<{ socket: PassThrough; wire: Wire; handed: Buffer[] }> {
  const socket = new PassThrough();
  const wire = new Wire(socket as unknown as Socket, handshakeRecords, begin);
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
  const { socket, wire } = await open(216, () => {});
  socket.write(Buffer.concat([record(handshake, 200), record(handshake, 10)]));
  await nextTurn();
  expect(wire.records).toBe(216 + 64);
});

test("a connection that begins another handshake ends, and nothing of that is handed over", async () => {
  const { socket, wire, handed } = await open(216, () => {});
  socket.write(record(handshake, 200));
  await nextTurn();
  wire.handshakeDone();
  socket.write(Buffer.concat([record(content, 10), record(handshake, 200)]));
  await nextTurn();
  expect(wire.destroyed).toBe(true);
  expect(Buffer.concat(handed).length).toBeLessThanOrEqual(205 + 15);
});

test("a handshake of more than 8 KiB ends, and one of less does not", async () => {
  const { socket, wire } = await open(216, () => {});
  socket.write(Buffer.concat([record(handshake, 4_096), record(handshake, 4_096), record(content, 16_384)]));
  await nextTurn();
  expect(wire.destroyed).toBe(false);
  socket.write(record(handshake, 1).subarray(0, 5));
  await nextTurn();
  expect(wire.destroyed).toBe(true);
});

test("what was kept of a connection that had to go is not handed to TLS", async () => {
  let begun = 0;
  const { socket, wire } = await open(undefined, () => (begun += 1));
  wire.stop();
  socket.write(record(handshake, 200));
  await nextTurn();
  // A socket of the system's closes a turn later.
  Object.defineProperty(socket, "destroyed", { value: true });
  wire.goOn();
  await nextTurn();
  expect(begun).toBe(0);
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

describe("until its handshake is done, a connection that waits for its turn is read from", () => {
  async function openWaiting() {
    // As a socket of which the other side alone ends.
    const socket = new PassThrough({ autoDestroy: false });
    const handed: Buffer[] = [];
    let begun = 0;
    const wire: Wire = new Wire(socket as unknown as Socket, undefined, () => {
      begun += 1;
      wire.on("data", (piece: Buffer) => handed.push(piece));
      wire.resume();
    });
    wire.stop();
    await nextTurn();
    return { socket, wire, handed, begun: () => begun };
  }
  const hello = record(handshake, 300);
  const later = async () => {
    for (let i = 0; i < 3; i += 1) await nextTurn();
  };

  test("what has come is handed over with its turn, in order, and its pieces are counted", async () => {
    const { socket, wire, handed, begun } = await openWaiting();
    socket.write(hello.subarray(0, 10));
    await nextTurn();
    socket.write(hello.subarray(10));
    await later();
    expect([begun(), wire.ahead.pieces, wire.bytesWaiting, wire.bytesRead]).toEqual([0, 2, 305, 0]);
    wire.goOn();
    // Comes when it may go on, and before it does.
    socket.write(record(content, 5));
    await later();
    expect(Buffer.concat(handed)).toEqual(Buffer.concat([hello, record(content, 5)]));
    expect([begun(), wire.bytesWaiting, wire.records]).toEqual([1, 0, 65]);
  });

  test("TLS does not begin when the turn comes and nothing has, but with what comes then", async () => {
    const { socket, wire, handed, begun } = await openWaiting();
    wire.goOn();
    await later();
    expect(begun()).toBe(0);
    socket.write(hello);
    await later();
    expect([begun(), wire.ahead.pieces, handed]).toEqual([1, 0, [hello]]);
  });

  test("whoever is told to stop again before it is handed anything waits for the next turn", async () => {
    const { socket, wire, handed, begun } = await openWaiting();
    socket.write(hello);
    await later();
    wire.goOn();
    wire.stop();
    await later();
    expect(begun()).toBe(0);
    wire.goOn();
    await later();
    expect(handed).toEqual([hello]);
  });

  test("whoever leaves before its turn is gone at once, and TLS never begins", async () => {
    const { socket, wire, begun } = await openWaiting();
    socket.end(hello);
    await later();
    wire.goOn();
    await later();
    expect([wire.destroyed, begun()]).toEqual([true, 0]);
  });

  test("whoever leaves in the middle of the handshake is gone at once, though it waits", async () => {
    const { socket, wire, handed } = await openWaiting();
    wire.goOn();
    socket.write(hello);
    await later();
    wire.stop();
    socket.end();
    await later();
    expect([wire.destroyed, handed]).toEqual([true, [hello]]);
  });

  test.each([true, false])(
    "whoever ends behind the last word of the handshake is handed over, and stays only if it was that (%s)",
    async (isLastWord) => {
      const { socket, wire, handed } = await openWaiting();
      wire.goOn();
      socket.write(hello);
      await later();
      wire.stop();
      const rest = Buffer.concat([record(content, 53), record(content, 200)]);
      socket.end(rest);
      await later();
      expect([wire.destroyed, wire.ahead.hasClientEnded, handed]).toEqual([false, true, [hello]]);
      if (isLastWord) wire.on("data", () => wire.handshakeDone());
      let hasEnded = false;
      wire.on("end", () => (hasEnded = true));
      wire.goOn();
      await later();
      expect(Buffer.concat(handed)).toEqual(Buffer.concat([hello, rest]));
      expect([wire.destroyed, hasEnded]).toEqual([!isLastWord, true]);
    },
  );

  test("whoever sends more than a hello before its turn is cut", async () => {
    const { socket, wire, begun } = await openWaiting();
    socket.write(Buffer.alloc(16_390));
    await later();
    expect([wire.destroyed, begun()]).toEqual([true, 0]);
  });

  test("of many pieces all but the first eight are left to the system, and come with the turn", async () => {
    const { socket, wire, handed } = await openWaiting();
    for (const byte of hello) {
      socket.write(Buffer.from([byte]));
      await nextTurn();
    }
    expect([wire.ahead.pieces, socket.isPaused()]).toEqual([8, true]);
    wire.goOn();
    await later();
    expect(Buffer.concat(handed)).toEqual(hello);
  });

  test("much behind the last word of the handshake is left to the system, and comes with the turn", async () => {
    const { socket, wire, handed } = await openWaiting();
    wire.goOn();
    const lastWord = record(handshake, 40);
    socket.write(Buffer.concat([hello, lastWord]));
    await later();
    wire.stop();
    const much = Array.from({ length: 8 }, () => record(content, 10_000));
    for (const piece of much) socket.write(piece);
    await later();
    expect(wire.bytesWaiting).toBeGreaterThan(16_384);
    expect([wire.destroyed, socket.isPaused()]).toEqual([false, true]);
    wire.handshakeDone();
    wire.goOn();
    const ended = new Promise((resolve) => wire.once("end", resolve));
    socket.end();
    await ended;
    expect(Buffer.concat(handed)).toEqual(Buffer.concat([hello, lastWord, ...much]));
  });
});
