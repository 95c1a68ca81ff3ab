/** What strangers ask for at once is done a little in each turn of the event loop, and everybody else has turns in between. */
import { connect, type ClientHttp2Session } from "node:http2";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { createPace } from "../../src/server/listener/pace.ts";
import type { Page } from "../../src/server/pages/pages.ts";
import { openRecords } from "../support/clients/records.ts";
import {
  callText,
  flag,
  frame,
  framesIn,
  frameType,
  headerBlock,
  openRaw,
  type RawConnection,
} from "../support/clients/raw.ts";
import { hello, hold, whenAnswered } from "../support/clients/strangers.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { pageKey, startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";
import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import { sampled } from "../support/extent.ts";
import { holdTicks, passTicks, releaseTicks } from "../support/service/ticks.ts";

/** A turn's bound, once for what is read and once for what was read before, and what one connection may bring on top. */
const inTurnMax = 2 * 64 + 100;
/** Of more at once on HTTP/2 some would be refused, as a stranger's are who does not take his answers. */
const untakenMax = 16;

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});

const page: Page = {
  methods: ["GET"],
  answer: async () => ({ ok: true, value: { type: "text/plain", body: "page" } }),
};

async function listenWith(options: ListenerOptions = {}): Promise<void> {
  listener = await startListener({ pageOf: (path) => (path === "/page" ? page : undefined), ...options });
}

async function holdMany(count: number, ...first: (string | Uint8Array)[]): Promise<RawConnection[]> {
  const held = await hold(listener.port, "127.0.0.2", count, ...first);
  opened.push(...held);
  return held;
}

type Counted = "asked" | "brought" | "trailed" | "pinged" | (() => number);
const counter = (what: Counted) => (typeof what === "function" ? what : () => listener[what]);

/** The most that came in one turn, from now until there are so many, of these or of others. */
function mostInTurn(total: number, what: Counted = "asked", until = what): Promise<number> {
  const [count, reached] = [counter(what), counter(until)];
  return new Promise((resolve) => {
    let seen = count();
    let most = 0;
    const look = () => {
      most = Math.max(most, count() - seen);
      seen = count();
      if (reached() >= total) resolve(most);
      else setImmediate(look);
    };
    setImmediate(look);
  });
}

interface Kind {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

const kinds: readonly Kind[] = [
  { name: "pages", method: "GET", path: "/page", headers: {} },
  {
    name: "preflights",
    method: "OPTIONS",
    path: "/v1/otp/send",
    headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
  },
  { name: "refused routes", method: "GET", path: "/nowhere", headers: { origin: "https://evil.example" } },
  { name: "calls without a key", method: "GET", path: `/v1/otp/${"A".repeat(22)}`, headers: {} },
  { name: "what Expect asks for in vain", method: "GET", path: "/page", headers: { expect: "much" } },
];
/** HTTP/1 is cut for it. */
const tunnels: Kind = { name: "tunnels", method: "CONNECT", path: "", headers: {} };

const streams = (count: number, { method, path, headers }: Kind) =>
  Array.from({ length: count }, (_, i) =>
    frame(
      frameType.headers,
      flag.endHeaders | flag.endStream,
      2 * i + 1,
      headerBlock({
        ":method": method,
        ...(path === "" ? {} : { ":scheme": "http", ":path": path }),
        ":authority": "otpd",
        ...headers,
      }),
    ),
  );

const texts = (count: number, { method, path, headers }: Kind) => {
  const more = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\nhost: otpd\r\n${more.join("")}\r\n`.repeat(count);
};

test.each(sampled([tunnels, ...kinds], 3))(
  "$name of 100 connections at once: HTTP/2 makes no long turn of them, and answers all",
  async (kind) => {
    await listenWith();
    const held = await holdMany(100, ...hello);
    await whenAnswered(held);
    for (const connection of held) connection.write(...streams(untakenMax, kind));
    expect(await mostInTurn(1_600)).toBeLessThanOrEqual(inTurnMax);
    await listener.answered(1_600);
  },
);

test.each(sampled(kinds, 3))(
  "$name of 60 connections at once: HTTP/1 makes no long turn of them, and answers all",
  async (kind) => {
    await listenWith();
    const held = await holdMany(60);
    await listener.open(60);
    for (const connection of held) connection.write(texts(50, kind));
    expect(await mostInTurn(3_000)).toBeLessThanOrEqual(inTurnMax);
    await listener.answered(3_000);
  },
);

test("trailers of 13 KB of 100 connections at once make no long turn", async () => {
  await listenWith();
  const held = await holdMany(100, ...hello);
  await whenAnswered(held);
  const head = headerBlock({ ":method": "POST", ":scheme": "http", ":path": "/nowhere", ":authority": "otpd" });
  const trailers = headerBlock({ "x-trailer": "x".repeat(13_000) });
  const withTrailers = Array.from({ length: untakenMax }, (_, i) => [
    frame(frameType.headers, flag.endHeaders, 2 * i + 1, head),
    frame(frameType.headers, flag.endHeaders | flag.endStream, 2 * i + 1, trailers),
  ]).flat();
  // The last thing of each connection: of a stream that was answered before, trailers are read past.
  const last = frame(frameType.ping, 0, 0, Buffer.alloc(8));
  for (const connection of held) connection.write(...withTrailers, last);
  // A turn's bound in bytes, twice, and what one connection brings on top.
  expect(await mostInTurn(100, "trailed", "pinged")).toBeLessThanOrEqual(2 * Math.ceil(262_144 / 13_000) + untakenMax);
  expect(listener.trailed).toBeGreaterThan(untakenMax);
});

test("who has brought nothing pays nothing for a turn that was long", async () => {
  const pace = createPace();
  const costs: number[] = [];
  await listenWith({ pace: { ...pace, cost: (...of) => (costs.push(of[1]), pace.cost(...of)) } });
  await whenAnswered(await holdMany(3, ...hello));
  costs.length = 0;
  // A long turn, and whatever looks at it behind it.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  const caller = await openRaw(listener.port);
  opened.push(caller);
  caller.write(callText(testKey));
  await caller.until((bytes) => (bytes.includes("HTTP/1.1 200") ? true : undefined));
  expect(Math.min(...costs)).toBeGreaterThan(0);
});

test("big answers are given out four in a turn", async () => {
  let given = 0;
  const value = {
    body: Buffer.alloc(20_000),
    /** It is asked for when the answer is written. */
    get type() {
      given += 1;
      return "text/plain";
    },
  };
  await listenWith({ pageOf: () => ({ methods: ["GET"], answer: async () => ({ ok: true, value }) }) });
  const held = await holdMany(15, ...hello);
  await whenAnswered(held);
  for (const connection of held) connection.write(...streams(untakenMax, kinds[0] as Kind));
  expect(await mostInTurn(15 * untakenMax, () => given)).toBeLessThanOrEqual(4);
});

test("a newcomer of another address has its turn long before the crowd is done", async () => {
  await listenWith();
  const crowd = await holdMany(100, ...hello);
  await whenAnswered(crowd);
  for (const connection of crowd) connection.write(...streams(untakenMax, kinds[0] as Kind));
  const newcomer = await openRaw(listener.port);
  opened.push(newcomer);
  newcomer.write(callText(testKey));
  await newcomer.until((bytes) => (bytes.includes("HTTP/1.1 200") ? true : undefined));
  expect(listener.asked).toBeLessThan(1_600);
  await listener.answered(1_601);
});

test("a newcomer has its turn beside a crowd that never stops asking", async () => {
  await listenWith();
  const crowd = Array.from({ length: 20 }, () =>
    connect(listener.url, {
      createConnection: () => connectTcp({ port: listener.port, host: "127.0.0.1", localAddress: "127.0.0.2" }),
    }),
  );
  let isOver = false;
  // Each asks for more than a turn's worth at once, and again as soon as all of that was answered or refused.
  const asking = crowd.map(async (session) => {
    session.on("error", () => {});
    while (!isOver && listener.asked < 8_000) await Promise.all(Array.from({ length: 100 }, () => ask(session)));
  });
  await listener.answered(200);
  const newcomer = await openRaw(listener.port);
  opened.push(newcomer);
  const before = listener.asked;
  newcomer.write(callText(testKey));
  await newcomer.until((bytes) => (bytes.includes("HTTP/1.1 200") ? true : undefined));
  const asked = listener.asked - before;
  isOver = true;
  await Promise.all(asking);
  for (const session of crowd) session.destroy();
  // One of the crowd may come before it, and those who ask in the turns that its connection, key and answer take.
  expect(asked).toBeLessThan(2_000);
});

function ask(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve) => {
    const stream = session.request({ ":path": "/page" });
    stream.on("error", () => {});
    stream.once("close", () => resolve());
    stream.resume();
  });
}

test("100 PINGs on each of 100 connections at once make no long turn, and are all taken", async () => {
  await listenWith();
  const held = await holdMany(100, ...hello);
  await whenAnswered(held);
  const pings = Buffer.concat(Array.from({ length: 100 }, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))));
  for (const connection of held) connection.write(pings);
  // Each costs 1 KiB of a turn's 256, and what one connection has sent comes on top.
  expect(await mostInTurn(10_000, "pinged")).toBeLessThanOrEqual(256 + 100);
});

test("a body in 5,000 pieces of a byte costs a stranger his connection", async () => {
  await listenWith();
  const held = await holdMany(1, ...hello);
  await whenAnswered(held);
  const [connection] = held;
  const headers = { ":method": "POST", ":scheme": "http", ":path": "/v1/otp/send", ":authority": "otpd" };
  const fields = headerBlock({ ...headers, "content-type": "application/json", authorization: `Bearer ${pageKey}` });
  connection?.write(frame(frameType.headers, flag.endHeaders, 1, fields));
  const piece = frame(frameType.data, 0, 1, Buffer.from(" "));
  connection?.write(Buffer.concat(Array.from({ length: 5_000 }, () => piece)));
  await connection?.closed;
  expect(listener.connections.count).toBe(0);
});

test("and so it does in 300, though requests pay for them, but not in 300 of 64 bytes", async () => {
  await listenWith();
  const held = await holdMany(2, ...hello);
  await whenAnswered(held);
  const fields = (method: string, path: string) =>
    headerBlock({
      ":method": method,
      ":scheme": "http",
      ":path": path,
      ":authority": "otpd",
      "content-type": "text/plain",
    });
  const send = frame(frameType.headers, flag.endHeaders, 1, fields("POST", "/nowhere"));
  const answered = (bytes: Buffer) => framesIn(bytes).filter(({ flags }) => (flags & flag.endStream) !== 0).length;
  const sendPaid = async ({ write, until }: RawConnection, bytes: number): Promise<void> => {
    write(send);
    const before = await until(answered);
    for (let i = 0; i < 300; i += 1) {
      write(frame(frameType.headers, flag.endHeaders | flag.endStream, 2 * i + 3, fields("HEAD", "/livez")));
      write(frame(frameType.data, 0, 1, Buffer.alloc(bytes)));
      await until((come) => (answered(come) > before + i ? true : undefined));
    }
    write(frame(frameType.data, flag.endStream, 1));
  };
  const [bytewise, larger] = held as [RawConnection, RawConnection];
  // What is refused is read for two seconds more, and this may take longer on a machine that is busy.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    await sendPaid(larger, 64);
    await expect(sendPaid(bytewise, 1)).rejects.toThrow("the connection ended");
    await listener.open(1);
  } finally {
    vi.useRealTimers();
  }
});

test.each(["/v1/otp/send", "/nowhere"])("and so it does in 5,000 chunks over HTTP/1, to %s", async (path) => {
  await listenWith();
  const [connection] = await holdMany(1);
  const type = `content-type: application/json\r\nauthorization: Bearer ${pageKey}\r\n`;
  const head = `POST ${path} HTTP/1.1\r\nhost: otpd\r\n${type}transfer-encoding: chunked\r\n\r\n`;
  connection?.write(head, "1\r\n \r\n".repeat(5_000));
  await connection?.closed;
  expect(listener.connections.count).toBe(0);
});

test("600 records of a byte on each of 20 connections at once: TLS makes no long turn of them", async () => {
  const certificate = makeCertificate("pace");
  await listenWith({ readCertificate: () => certificate });
  const crowd = await Promise.all(
    Array.from({ length: 20 }, () => openRecords(listener.port, { ca: certificate.cert, ALPNProtocols: ["h2"] })),
  );
  opened.push(...crowd.map(({ raw }) => raw));
  for (const { raw } of crowd) raw.write(...hello);
  await whenAnswered(crowd.map(({ raw }) => raw));
  const before = listener.brought;
  const noise = frame(200, 0, 0, Buffer.alloc(591));
  const prepared = await Promise.all(crowd.map(({ prepare }) => prepare(noise)));
  const most = mostInTurn(before + 60, "brought");
  for (const send of prepared) send();
  // 256 records cost half of a turn's bound.
  expect(await most).toBeLessThanOrEqual(4);
});

test("over TLS newcomers find their way past a crowd, and the crowd is answered", async () => {
  const certificate = makeCertificate("pace");
  await listenWith({ readCertificate: () => certificate });
  const open = () =>
    openRaw(
      listener.port,
      connectTls({ port: listener.port, host: "127.0.0.1", ca: certificate.cert, ALPNProtocols: ["http/1.1"] }),
    );
  const crowd = await Promise.all(Array.from({ length: 20 }, open));
  opened.push(...crowd);
  for (const connection of crowd) connection.write(texts(50, kinds[0] as Kind));
  const newcomer = await open();
  opened.push(newcomer);
  newcomer.write(callText(testKey));
  await newcomer.until((bytes) => (bytes.includes("HTTP/1.1 200") ? true : undefined));
  await listener.answered(1_001);
  expect(listener.calls).toMatchObject([{ status: 200 }]);
});

test("handshakes with a key of RSA with 3,072 bits make no long turn, and are answered", async () => {
  const certificate = makeCertificate("pace", 2, 3_072);
  await listenWith({ readCertificate: () => certificate });
  const crowd = await holdMany(30, Buffer.from([22, 3, 1, 2, 0]));
  // Each takes 4 ms of a turn's 8.
  expect(await mostInTurn(30, "brought")).toBeLessThanOrEqual(3);
  for (const connection of crowd) connection.destroy();
  for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
    const { port } = listener;
    const tls = connectTls({ port, host: "127.0.0.1", ca: certificate.cert, maxVersion });
    const caller = await openRaw(port, tls);
    opened.push(caller);
    caller.write(callText(testKey));
    await caller.until((bytes) => (bytes.includes("HTTP/1.1 200") ? true : undefined));
  }
});

test("no time counts against a connection while it waits to be read", async () => {
  holdTicks();
  onTestFinished(releaseTicks);
  let isWaiting = false;
  await listenWith({ limits: { halfOpenMs: 100 }, pace: { ...createPace(), isWaiting: () => isWaiting } });
  const connection = await openRaw(listener.port);
  opened.push(connection);
  await listener.open(1);
  isWaiting = true;
  passTicks(1_000);
  isWaiting = false;
  connection.write(callText("wrong key"));
  expect(await connection.until((bytes) => /^HTTP\/1\.1 (\d+)/.exec(bytes.toString())?.[1])).toBe("401");
});
