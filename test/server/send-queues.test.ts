/** What strangers leave unread in the system's send queues is bounded, and nobody loses an answer who leaves little. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createConnection, type Connection } from "../../src/server/listener/connection.ts";
import { createHeld } from "../../src/server/listener/held.ts";
import { createSendQueues } from "../../src/server/listener/send-queues.ts";
import { inodeOf, queuesIn, readQueues } from "../../src/server/listener/system-queues.ts";
import type { Page } from "../../src/server/pages/pages.ts";
import { flag, frame, frameType, headerBlock, openRaw, preface, settings } from "../support/clients/raw.ts";
import { lacks } from "../support/machine.ts";
import { readAll } from "../support/network/queues.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { startListener, type Listener, type ListenerOptions } from "../support/service/listener.ts";

const table = "the system's table of connections";
const mib = 1_048_576;
/** The budget of open connections, twice that of closed ones, and some that come between two looks. */
const bytesMax = 28 * mib;
/** More than a client's own system takes by itself. */
const large: Page = {
  methods: ["GET"],
  answer: async () => ({ ok: true, value: { type: "text/plain", body: "x".repeat(mib) } }),
};
const get = (more = "") => `GET /large HTTP/1.1\r\nhost: otpd\r\n${more}\r\n`;
const windowMax = 0x7fff_ffff;
const moreWindow = Buffer.alloc(4);
moreWindow.writeUInt32BE(windowMax - 65_535);
const streams = Buffer.concat([
  Buffer.from(preface),
  settings([4, windowMax]),
  frame(frameType.windowUpdate, 0, 0, moreWindow),
  ...Array.from({ length: 50 }, (_, i) =>
    frame(
      frameType.headers,
      flag.endHeaders | flag.endStream,
      2 * i + 1,
      headerBlock({ ":method": "GET", ":scheme": "http", ":path": "/large", ":authority": "otpd" }),
    ),
  ),
]);

/** What the system has to send for a port, once that has been the same in ten looks, though a slow machine may go on later. */
async function queuedBytes(port: number): Promise<number> {
  for (let [before, times] = [-1, 0]; ;) {
    const bytes = readAll(readQueues())
      .queues.filter((queue) => queue.port === port)
      .reduce((sum, queue) => sum + queue.bytes, 0);
    [before, times] = [bytes, bytes === before ? times + 1 : 0];
    if (times === 10) return bytes;
    await wait(100);
  }
}

describe.skipIf(lacks("send queues", table))("with the real listener", () => {
  let listener: Listener;
  const opened: Socket[] = [];
  afterEach(async () => {
    for (const socket of opened.splice(0)) socket.destroy();
    await listener.stop(0);
  });

  async function listen(options: ListenerOptions = {}): Promise<void> {
    listener = await startListener({ pageOf: (path) => (path === "/large" ? large : undefined), ...options });
  }

  /** Opens a connection that reads nothing. */
  async function open(isSecure: boolean, localAddress?: string): Promise<Socket> {
    const to = { port: listener.port, host: "127.0.0.1", localAddress };
    const socket = isSecure ? connectTls({ ...to, rejectUnauthorized: false }) : connect(to);
    socket.pause().on("error", () => {});
    opened.push(socket);
    await once(socket, isSecure ? "secureConnect" : "connect");
    return socket;
  }

  const pipelined = get().repeat(50);
  const ways: [what: string, isSecure: boolean, bytes: string | Buffer][] = [
    ["pipelined requests", false, pipelined],
    ["requests over HTTP/2", false, streams],
  ];
  if (!lacks("send queues over TLS", "openssl")) ways.push(["requests over TLS", true, pipelined]);
  test.each(ways)(
    "%s that nobody reads, while who left one answer unread at another address gets it whole",
    async (_, isSecure, bytes) => {
      await listen(isSecure ? { readCertificate: () => makeCertificate("send-queues") } : {});
      const modest = await open(isSecure, "127.0.0.2");
      modest.write(get());
      await listener.came(1);
      for (let i = 0; i < 20; i += 1) (await open(isSecure)).write(bytes);
      const left = await queuedBytes(listener.port);
      expect(left).toBeLessThan(bytesMax);
      expect(left).toBeGreaterThan(2 * mib);
      await expect.poll(() => listener.connections.count).toBeLessThan(21);
      const whole = Promise.withResolvers<void>();
      let read = 0;
      modest.on("close", () => whole.reject(new Error(`it was cut after ${read} bytes`)));
      modest.on("data", (chunk: Buffer) => {
        read += chunk.length;
        if (read > mib) whole.resolve();
      });
      modest.resume();
      await whole.promise;
    },
  );

  test.each([
    ["was told to end behind its answer", get("connection: close\r\n"), false],
    ["has ended its own side", pipelined, true],
  ])("of connections each of which %s, while another address is read to", async (_, text, isEnded) => {
    await listen();
    for (let i = 0; i < 200; i += 1) {
      const socket = await open(false);
      if (isEnded) socket.end(text);
      else socket.write(text);
    }
    const left = await queuedBytes(listener.port);
    expect(left).toBeLessThan(bytesMax);
    expect(left).toBeGreaterThan(2 * mib);
    const other = await openRaw(listener.port, undefined, "127.0.0.2");
    other.socket.pause();
    other.write(get("connection: close\r\n"));
    await queuedBytes(listener.port);
    other.socket.resume();
    expect((await other.closed).length).toBeGreaterThan(mib);
  });

  test("a document waits for room, and nothing small does", async () => {
    const [asked, room] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isRoom = false;
    await listen({
      untilRoom() {
        asked.resolve();
        return isRoom ? undefined : room.promise;
      },
    });
    const reader = await openRaw(listener.port);
    reader.write(get("connection: close\r\n"));
    await asked.promise;
    const other = await openRaw(listener.port);
    other.write("GET /nowhere HTTP/1.1\r\nhost: otpd\r\nconnection: close\r\n\r\n");
    expect((await other.closed).toString()).toContain("HTTP/1.1 404");
    expect(reader.text()).toBe("");
    isRoom = true;
    room.resolve();
    expect((await reader.closed).length).toBeGreaterThan(mib);
  });
});

describe.skipIf(lacks("looks at send queues", table))("a look", () => {
  interface Taken {
    readonly connection: Connection;
    /** How its client saw it end. */
    readonly ended: Promise<"reset" | "closed">;
  }

  /** Connections as the listener has them, each of an address, whose clients read what they are given. */
  async function openTaken(addresses: readonly string[]): Promise<Taken[]> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const taken: Taken[] = [];
    onTestFinished(() => {
      for (const { connection } of taken) connection.socket.destroy();
      server.close();
    });
    for (const address of addresses) {
      const client = connect((server.address() as AddressInfo).port, "127.0.0.1").resume();
      const ended = new Promise<"reset" | "closed">((resolve) => {
        client.once("error", () => resolve("reset")).once("end", () => resolve("closed"));
      });
      const [socket] = (await once(server, "connection")) as [Socket];
      taken.push({ connection: createConnection(socket, undefined, address, 0, 0), ended });
    }
    return taken;
  }

  /** Gives each so much, which the system has taken by then. */
  const give = async (taken: readonly Taken[], bytes = 4 * mib) =>
    await Promise.all(
      taken.map(({ connection: { socket } }) => new Promise((resolve) => socket.write(Buffer.alloc(bytes), resolve))),
    );

  /** Ends each behind what it was given, and tells how. A client that is quick sees the end before the reset. */
  async function endAll(taken: readonly Taken[]): Promise<string[]> {
    const ends: string[] = [];
    for (const { connection } of taken) {
      const reset = vi.spyOn(connection.socket, "resetAndDestroy");
      const closed = once(connection.socket, "close");
      connection.socket.destroySoon();
      await closed;
      ends.push(reset.mock.calls.length > 0 ? "reset" : "closed");
    }
    return ends;
  }

  /** Counts the looks, each of which finds what `find` says, once it is not to go on. */
  function createCounted(find: (looks: number) => readonly string[] | undefined, isToGoOn = () => false) {
    let looks = 0;
    function* read() {
      looks += 1;
      while (isToGoOn()) yield;
      const lines = find(looks);
      if (lines === undefined) throw new Error("too many open files");
      return queuesIn(lines.join("\n"));
    }
    return { queues: createSendQueues({ ownAddressOf: (peer) => peer, read }), looks: () => looks };
  }

  /** Takes the processor for so long. */
  function takeCpu(ms: number): void {
    const began = process.cpuUsage();
    for (;;) {
      const { user, system } = process.cpuUsage(began);
      if (user + system >= ms * 1_000) return;
    }
  }

  /** The system's line of a connection, as if so much of what it was given were unread. */
  function unread(
    { connection: { socket } }: Taken,
    bytes: number,
    inode = inodeOf(socket),
    peer = "010200C0",
  ): string {
    const port = (socket.localPort ?? 0).toString(16).toUpperCase().padStart(4, "0");
    const queued = bytes.toString(16).toUpperCase().padStart(8, "0");
    return `   7: 0100007F:${port} ${peer}:C350 01 ${queued}:00000000 00:00000000 00000000     0        0 ${inode} 1 0000000012345678 20 4 30 10 -1`;
  }

  test("that fails is made again, and cuts who leaves the most", async () => {
    const taken = await openTaken(["192.0.2.1", "192.0.2.1", "192.0.2.1"]);
    const [most, less, none] = taken as [Taken, Taken, Taken];
    const found = [unread(most, 5 * mib), unread(less, 4 * mib)];
    const { queues, looks } = createCounted((look) => (look === 1 ? undefined : found));
    for (const { connection } of taken) queues.opened(connection);
    await give(taken);
    queues.tick();
    expect(await most.ended).toBe("reset");
    expect(looks()).toBe(2);
    expect([less, none].map(({ connection }) => connection.socket.destroyed)).toEqual([false, false]);
  });

  test("that takes long gives others their turn, and leaves what they are given meanwhile to the next one", async () => {
    const taken = await openTaken(["192.0.2.1"]);
    const [greedy] = taken as [Taken];
    let isToGoOn = true;
    const { queues, looks } = createCounted(
      (look) => (look === 1 ? [] : [unread(greedy, 9 * mib)]),
      () => isToGoOn,
    );
    queues.opened(greedy.connection);
    await give(taken, 9 * mib);
    queues.tick();
    expect(queues.untilRoom(mib)).toBeInstanceOf(Promise);
    await give(taken, 9 * mib);
    queues.tick();
    expect([looks(), greedy.connection.socket.destroyed]).toEqual([1, false]);
    isToGoOn = false;
    await expect.poll(looks).toBe(2);
    expect(greedy.connection.socket.destroyed).toBe(true);
  });

  test("that takes long counts what ended meanwhile, which it may have read as open", async () => {
    const taken = await openTaken(Array.from({ length: 6 }, () => "192.0.2.1"));
    let isToGoOn = true;
    const { queues } = createCounted(
      () => [],
      () => isToGoOn,
    );
    for (const { connection } of taken) queues.opened(connection);
    await give(taken, 3 * mib);
    queues.tick();
    expect(await endAll(taken.slice(0, 5))).toEqual(["closed", "closed", "closed", "closed", "closed"]);
    isToGoOn = false;
    await queues.untilRoom(mib);
    await give(taken.slice(5), 3 * mib);
    expect(await endAll(taken.slice(5))).toEqual(["reset"]);
  });

  test("cuts nobody for having many neighbours who leave little", async () => {
    const addresses = Array.from({ length: 40 }, (_, i) => `192.0.2.${i + 1}`);
    const taken = await openTaken(addresses);
    const [greedy, modest] = taken as [Taken, Taken];
    const found = taken.map((one) => unread(one, one === greedy ? 8 * mib : one === modest ? mib : 1_024));
    const { queues } = createCounted(() => found);
    for (const { connection } of taken) queues.opened(connection);
    await give(taken, mib);
    queues.tick();
    expect(await greedy.ended).toBe("reset");
    expect(taken.filter(({ connection }) => connection.socket.destroyed)).toEqual([greedy]);
  });

  test("has those reset at their end who left too much in closed connections, and nobody else", async () => {
    const taken = await openTaken(["192.0.2.1", "192.0.2.2"]);
    const [greedy, modest] = taken as [Taken, Taken];
    const looked = Promise.withResolvers<void>();
    const { queues } = createCounted(() => {
      looked.resolve();
      return [unread(greedy, 9 * mib, "0"), unread(modest, 60_000, "0", "020200C0")];
    });
    for (const { connection } of taken) queues.opened(connection);
    await give(taken, 6 * mib);
    queues.tick();
    await looked.promise;
    await give(taken, 100_000);
    expect(await endAll(taken)).toEqual(["reset", "closed"]);
  });

  test("leaves who reads a document slowly alone where a hundred addresses have left a little more than they may", async () => {
    const taken = await openTaken(["192.0.2.200"]);
    const [slow] = taken as [Taken];
    const looked = Promise.withResolvers<void>();
    const { queues } = createCounted(() => {
      looked.resolve();
      return Array.from({ length: 100 }, (_, i) =>
        unread(slow, 100_000, "0", `${(i + 1).toString(16).padStart(2, "0").toUpperCase()}0200C0`),
      );
    });
    queues.opened(slow.connection);
    await give(taken, 9 * mib);
    queues.tick();
    await looked.promise;
    await give(taken, 200_000);
    expect(await endAll(taken)).toEqual(["closed"]);
  });

  test("has everybody reset who ends behind unread answers once closed ones have twice as much as they may", async () => {
    const taken = await openTaken(Array.from({ length: 6 }, (_, i) => `192.0.2.${i + 1}`));
    const { queues } = createCounted(() => []);
    for (const { connection } of taken) queues.opened(connection);
    await give(taken, 3 * mib);
    expect(await endAll(taken)).toEqual(["closed", "closed", "closed", "closed", "closed", "reset"]);
  });

  test("is made only once there may be too much", async () => {
    const taken = await openTaken(["192.0.2.1"]);
    const { queues, looks } = createCounted(() => []);
    for (const { connection } of taken) queues.opened(connection);
    await give(taken);
    queues.tick();
    expect(looks()).toBe(0);
  });

  test("that was dear has documents wait for the next one, once strangers were given as much as they may leave", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const taken = await openTaken(["192.0.2.1"]);
    let isToGoOn = false;
    const { queues, looks } = createCounted(
      (look) => {
        if (look === 2) takeCpu(45);
        return look < 3 ? [] : undefined;
      },
      () => isToGoOn,
    );
    for (const { connection } of taken) queues.opened(connection);
    const giveMuch = async () => {
      await give(taken, 9 * mib);
      queues.tick();
      return [looks(), queues.untilRoom(mib)];
    };
    /** Step by step: the one after it comes 450 ms later at the soonest, and others' timers may be set far ahead. */
    const passUntilNextLook = () => {
      for (const before = looks(); looks() === before;) vi.advanceTimersByTime(50);
    };
    // One that is cheap has nobody wait, and neither has one that fails.
    expect(await giveMuch()).toEqual([1, undefined]);
    expect(await giveMuch()).toEqual([1, undefined]);
    passUntilNextLook();
    expect([looks(), queues.untilRoom(mib)]).toEqual([2, undefined]);
    const [, room] = await giveMuch();
    expect([looks(), room]).toEqual([2, expect.any(Promise)]);
    isToGoOn = true;
    passUntilNextLook();
    // The next one goes on.
    expect([looks(), queues.untilRoom(mib)]).toEqual([3, expect.any(Promise)]);
    isToGoOn = false;
    for (let more = room; more !== undefined; more = queues.untilRoom(mib)) await more;
    expect(await giveMuch()).toEqual([3, undefined]);
  });

  test.each([
    ["a caller with a secret key", (connection: Connection) => (connection.hasBroughtKey = true)],
    ["a trusted proxy", (connection: Connection) => Object.assign(connection, { isProxys: true })],
  ])("is not made for %s", async (_, change) => {
    const taken = await openTaken(["192.0.2.1", "192.0.2.1", "192.0.2.1"]);
    const connections = taken.map(({ connection }) => connection);
    connections.forEach(change);
    const { queues, looks } = createCounted(() => []);
    const held = createHeld(new Map(connections.map((one) => [one.socket, one])), queues);
    onTestFinished(() => held.end());
    connections.forEach(held.opened);
    for (const one of connections) if (one.hasBroughtKey) held.letGo(one);
    await give(taken);
    held.makeRoom();
    expect(looks()).toBe(0);
  });
});
