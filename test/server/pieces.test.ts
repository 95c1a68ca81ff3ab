/** What the pieces of a body on HTTP/2 cost: a stranger's connection is charged for each, and small ones are few. */
import type { ServerHttp2Stream } from "node:http2";
import { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createConnection, takePieces } from "../../src/server/listener/connection.ts";
import { questions } from "../support/clients/attacks.ts";
import { flag, frame, framesIn, frameType, openRaw } from "../support/clients/raw.ts";
import { startListener } from "../support/service/listener.ts";

/** Hands so many pieces over, and tells which were taken, whether that was too much, and how often they were to be charged for. */
function hand(
  count: number,
  bytes: number,
  who: { readonly isProxys?: boolean; readonly hasBroughtKey?: boolean } = {},
) {
  const connection = createConnection(new Socket(), undefined, undefined, 0, 0, who.isProxys);
  connection.hasBroughtKey = who.hasBroughtKey === true;
  const taken: (Uint8Array | null)[] = [];
  const stream = { push: (piece: Uint8Array | null) => taken.push(piece) > 0 } as unknown as ServerHttp2Stream;
  let [floods, charges] = [0, 0];
  takePieces(connection, stream, { onFlood: () => (floods += 1), onMuch: () => (charges += 1) });
  const read = Buffer.alloc(65_536);
  for (let i = 0; i < count && floods === 0; i += 1) stream.push(read.subarray(0, bytes));
  stream.push(null);
  return { taken, isFlood: floods > 0, charges };
}

test("a stranger's connection has 1,024 pieces to spend, which its calls give back", () => {
  const { taken, isFlood } = hand(2_000, 100);
  expect([taken.length - 1, taken.at(-1), isFlood]).toEqual([1_024, null, true]);
});

test.each([
  ["a proxy's, which carries calls of many", { isProxys: true }],
  ["one that has brought a secret key", { hasBroughtKey: true }],
])("%s is not charged", (_, who) => {
  expect(hand(2_000, 100, who)).toMatchObject({ isFlood: false, taken: { length: 2_001 } });
});

test.each([
  ["a stranger", {}, 260],
  ["a proxy's client", { isProxys: true }, 260],
  ["who has brought a secret key", { hasBroughtKey: true }, 2_000],
])("of pieces of a byte %s may send so many", (_, who, most) => {
  expect(hand(2_000, 1, who).taken).toHaveLength(most + 1);
});

test.each([
  [16_383, 4, 0],
  [16_384, 4, 1],
  [16_384, 12, 3],
])("of pieces of %i bytes %i are charged for %i times, for each 64 KiB at once", (bytes, count, times) => {
  expect(hand(count, bytes).charges).toBe(times);
});

test("a stranger's connection is cut with the first bodies that are too much, without a tick", async () => {
  const listener = await startListener({ limits: { tickMs: 3_600_000 } });
  onTestFinished(() => listener.stop());
  const client = await openRaw(listener.port);
  client.write(questions(1, 30).bytes, frame(frameType.ping, 0, 0, Buffer.alloc(8)));
  const isAnswered = (bytes: Buffer) =>
    framesIn(bytes).some(({ type, flags }) => type === frameType.ping && flags === flag.ack);
  await expect(client.until((bytes) => (isAnswered(bytes) ? true : undefined))).rejects.toThrow("the connection ended");
});

test("a piece that is kept keeps nothing else", () => {
  const [piece] = hand(1, 3).taken;
  expect([piece?.length, piece?.buffer.byteLength]).toEqual([3, 3]);
});
