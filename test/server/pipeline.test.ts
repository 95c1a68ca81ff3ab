/** How much of one connection's bytes is parsed before others have their turn. */
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createPipelines } from "../../src/server/listener/pipeline.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setImmediate"] }));
afterEach(() => void vi.useRealTimers());

/** What a stream does within a turn. */
async function endOfTurn(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await new Promise<void>((resolve) => process.nextTick(resolve));
}

/** The answer to a request that has come by its head alone. */
function answerOn(socket: PassThrough): ServerResponse {
  const req = Object.assign(new EventEmitter(), { socket, complete: false, headers: {} });
  return { req } as unknown as ServerResponse;
}

/** Has a connection bring this text at once, and tells the pieces that were parsed in each turn until all was. */
async function parse(text: string, hasBody: boolean): Promise<number[][]> {
  const socket = new PassThrough();
  let pieces: number[] = [];
  let bytes = 0;
  socket.on("data", (piece: Buffer) => {
    bytes += piece.length;
    pieces.push(piece.length);
    // As node:http does for whoever reads a body.
    socket.resume();
  });
  const pipelines = createPipelines(16, { brought: () => {}, goOn: (_, run) => void setImmediate(run) });
  pipelines.take(socket as unknown as Socket);
  if (hasBody) pipelines.began(answerOn(socket));
  socket.write(text);
  const turns: number[][] = [];
  for (;;) {
    await endOfTurn();
    turns.push(pieces);
    pieces = [];
    if (bytes === text.length) return turns;
    vi.runOnlyPendingTimers();
  }
}

test.each([
  ["blank lines", false],
  ["blank lines within a body in chunks", true],
])("of %s 64 are parsed in a turn, and all of them in the end", async (_, hasBody) => {
  const lines = 1_000;
  const turns = await parse("\r\n\r\n".repeat(lines), hasBody);
  expect(Math.max(...turns.map((pieces) => pieces.length))).toBeLessThanOrEqual(64);
  expect(turns.flat()).toEqual(Array(lines).fill(4));
});

test("of a body in chunks, each of which may be small, 4 KiB are parsed in a turn", async () => {
  const text = "1\r\nx\r\n".repeat(10_000);
  const turns = await parse(text, true);
  expect(Math.max(...turns.map((pieces) => pieces.reduce((sum, bytes) => sum + bytes, 0)))).toBe(4_096);
});

test("each of them is told of, whichever way they are cut, and the rest waits until its turn is given", async () => {
  const socket = new PassThrough();
  const turns: (() => void)[] = [];
  let chunks = 0;
  let bytes = 0;
  socket.on("data", (piece: Buffer) => void (bytes += piece.length));
  const brought = (_: Socket, count = 0) => void (chunks += count);
  const pipelines = createPipelines(16, { brought, goOn: (_, run) => void turns.push(run) });
  pipelines.take(socket as unknown as Socket);
  pipelines.began(answerOn(socket));
  socket.write("1\r\nx\r\n".repeat(1_000));
  await endOfTurn();
  vi.runOnlyPendingTimers();
  await endOfTurn();
  expect(bytes).toBe(4_096);
  for (const run of turns) run();
  await endOfTurn();
  expect([bytes, chunks]).toEqual([6_000, 1_000]);
});

test("a request that breaks off when nobody listens to it any more ends nothing else", () => {
  const socket = new PassThrough();
  socket.on("data", () => {});
  const pipelines = createPipelines(16, { brought: () => {}, goOn: (_, run) => void setImmediate(run) });
  pipelines.take(socket as unknown as Socket);
  const response = answerOn(socket);
  pipelines.began(response);
  expect(() => response.req.emit("error", new Error("aborted"))).not.toThrow();
});

test("a request is held no longer than until its answer was taken, though its connection stays", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const socket = new PassThrough();
  socket.on("data", () => {});
  const pipelines = createPipelines(16, { brought: () => {}, goOn: () => {} });
  pipelines.take(socket as unknown as Socket);
  const begin = () => {
    const response = answerOn(socket);
    response.req.complete = true;
    pipelines.began(response)?.ended();
    return new WeakRef(response.req);
  };
  const request = begin();
  await endOfTurn();
  collect();
  expect(request.deref()).toBeUndefined();
  expect(socket.destroyed).toBe(false);
});
