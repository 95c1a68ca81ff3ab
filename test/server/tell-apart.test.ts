/** What is read of a connection in cleartext before its turn, and what whoever takes it finds then. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { handleOf } from "../../src/server/listener/handle.ts";
import { Untold } from "../../src/server/listener/tell-apart.ts";

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

let server: Server;
let client: Socket;
let socket: Socket;
let untold: Untold;
/** As what it was taken, and what came then. */
let takenAs: string[];
let came: string;
beforeEach(async () => {
  server = createServer({ allowHalfOpen: true, highWaterMark: 16_384 }).listen(0, "127.0.0.1");
  await once(server, "listening");
  takenAs = [];
  came = "";
  server.on("connection", (taken) => {
    socket = taken;
    untold = new Untold(taken, (isHttp2) => {
      takenAs.push(isHttp2 ? "HTTP/2" : "HTTP/1");
      taken.on("data", (chunk: Buffer) => (came += chunk.toString("latin1")));
      taken.resume();
    });
    taken.on("error", () => {});
    untold.stop();
  });
  client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  client.on("error", () => {});
  await Promise.all([once(server, "connection"), once(client, "connect")]);
});
afterEach(async () => {
  client.destroy();
  socket.destroy();
  server.close();
  await once(server, "close");
});

/** Turns, and no time: with a client in this process a handful do. Without a bound a mistake would have the test spin for ever. */
async function until(isSo: () => boolean): Promise<void> {
  for (let turns = 0; !isSo(); turns += 1) {
    expect(turns).toBeLessThan(200_000);
    await nextTurn();
  }
}

async function send(text: string): Promise<void> {
  const before = socket.bytesRead;
  client.write(text, "latin1");
  await until(() => socket.bytesRead === before + text.length);
  await nextTurn();
}

test.each([
  ["HTTP/1", "GET / HTTP/1.1\r\nhost: otpd\r\n\r\n"],
  ["HTTP/1", "PRI / HTTP/1.1\r\n\r\n"],
  ["HTTP/2", `${preface}more`],
])("%s is taken with its turn, in order, and its end comes behind it", async (as, text) => {
  await send(text.slice(0, 4));
  await send(text.slice(4));
  expect(untold.ahead.hasClientEnded).toBe(false);
  client.end();
  await until(() => untold.ahead.hasClientEnded);
  expect([takenAs, untold.bytesWaiting, socket.destroyed]).toEqual([[], text.length, false]);
  untold.goOn();
  await once(socket, "end");
  expect([takenAs, came, untold.bytesWaiting, socket.destroyed]).toEqual([[as], text, 0, false]);
});

test("who is not known by what he has sent so far waits for more, and is taken with it", async () => {
  untold.goOn();
  await send(preface.slice(0, 10));
  expect([takenAs, untold.bytesWaiting]).toEqual([[], 10]);
  untold.stop();
  await send(preface.slice(10));
  expect([takenAs, untold.bytesWaiting]).toEqual([[], preface.length]);
  untold.goOn();
  await until(() => came !== "");
  expect([takenAs, came]).toEqual([["HTTP/2"], preface]);
});

test("who is told to stop again before he was looked at waits for the next turn", async () => {
  await send("GET");
  untold.goOn();
  untold.stop();
  await nextTurn();
  await nextTurn();
  expect(takenAs).toEqual([]);
  untold.goOn();
  await until(() => came !== "");
  expect([takenAs, came]).toEqual([["HTTP/1"], "GET"]);
});

test("who is reset before his turn is gone at once, whatever he has sent", async () => {
  await send("GET / HTTP/1.1\r\nhost: otpd\r\n\r\n");
  client.resetAndDestroy();
  await until(() => socket.closed);
  untold.goOn();
  await nextTurn();
  await nextTurn();
  expect(takenAs).toEqual([]);
});

test("who ends without a word before his turn is gone at once", async () => {
  const closed = once(socket, "close");
  client.end();
  await closed;
  expect(takenAs).toEqual([]);
});

test("of many pieces all but a few are left to the system, and come with the turn", async () => {
  client.setNoDelay(true);
  for (let sent = 1; untold.ahead.pieces < 8; sent += 1) {
    client.write("x");
    await until(() => socket.bytesRead === sent);
    await nextTurn();
  }
  const readAhead = socket.bytesRead;
  await new Promise<void>((done) => void client.write("y", () => done()));
  for (let i = 0; i < 20; i += 1) await nextTurn();
  expect(socket.bytesRead).toBe(readAhead);
  untold.goOn();
  handleOf(socket)?.readStart();
  await until(() => came.endsWith("y"));
  expect(came).toBe(`${"x".repeat(readAhead)}y`);
});

test("much is left to the system, and comes with the turn", async () => {
  const text = "x".repeat(400_000);
  client.write(text);
  await until(() => untold.bytesWaiting >= 16_384);
  for (let i = 0; i < 20; i += 1) await nextTurn();
  expect(untold.bytesWaiting).toBeLessThan(100_000);
  untold.goOn();
  await until(() => came.length === text.length);
  expect([takenAs, came]).toEqual([["HTTP/1"], text]);
});
