/**
 * A connection that carries calls of many: what one stranger sends on it costs the others nothing.
 */
import { once } from "node:events";
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { afterEach, expect, onTestFinished, test } from "vitest";
import type { Page } from "../../src/server/pages/pages.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { pageKey, startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";
import { holdTicks, passTicks, releaseTicks } from "../support/service/ticks.ts";

let listener: Listener;
let session: ClientHttp2Session;
afterEach(async () => {
  session.destroy();
  await listener.stop(0);
});

/** Posts to a path and resolves with the status; undefined where the stream ended without one. */
async function post(path: string, body: string | Buffer, headers: Record<string, string> = {}, by = session) {
  const stream = by.request({ ":method": "POST", ":path": path, "content-type": "application/json", ...headers });
  let status: number | undefined;
  stream.on("response", (head) => (status = head[":status"]));
  stream.on("error", () => {});
  stream.resume();
  stream.end(body);
  await once(stream, "close");
  return status;
}
const send = (by = session) =>
  post("/v1/otp/send", '{"phone":"+31612345678"}', { authorization: `Bearer ${testKey}` }, by);

test.each([
  ["brought a secret key", false],
  ["is a trusted proxy's", true],
])("a stranger's bodies do not end a connection that %s", async (_, isBehindProxy) => {
  listener = await startListener({ isBehindProxy });
  session = connect(listener.url);
  session.on("error", () => {});
  expect(isBehindProxy || (await send()) === 200).toBe(true);
  // Beyond a megabyte the stream is ended.
  const bodies = [900_000, 900_000, 3_000_000, 900_000, 900_000, 900_000];
  for (const bytes of bodies) {
    await Promise.all([post("/v1/otp/send", Buffer.alloc(bytes)), post("/nowhere", Buffer.alloc(bytes))]);
  }
  expect(session.closed).toBe(false);
  expect(await send()).toBe(200);
  expect(listener.connections.count).toBe(1);
});

test("a body beyond what is read past ends its request, and nothing beside it", async () => {
  listener = await startListener();
  session = connect(listener.url);
  expect(await send()).toBe(200);
  await post("/nowhere", Buffer.alloc(3_000_000));
  await listener.answered(2);
  expect(await send()).toBe(200);
});

/** What a proxy takes of an answer before its own client has. */
const windowBytes = 4_096;
const pageBytes: Readonly<Record<string, number>> = { "/long": windowBytes + 100, "/big": 200_000 };
const pageOf = (path: string): Page => ({
  methods: ["GET"],
  answer: async () => ({ ok: true, value: { type: "text/plain", body: Buffer.alloc(pageBytes[path] ?? 0) } }),
});

async function connectProxy(options: ListenerOptions): Promise<void> {
  listener = await startListener({ isBehindProxy: true, pageOf, ...options });
  session = connectLikewise();
}

function connectLikewise(): ClientHttp2Session {
  const another = connect(listener.url, { settings: { initialWindowSize: windowBytes }, rejectUnauthorized: false });
  return another.on("error", () => {});
}

async function whenClosed(stream: ClientHttp2Stream): Promise<void> {
  if (!stream.closed) await once(stream, "close");
}

/** Asks for a page as so many strangers at once, who take its beginning, if it is not taken from them. */
async function ask(path: string, count: number, by = session): Promise<ClientHttp2Stream[]> {
  const streams = Array.from({ length: count }, () => by.request({ ":path": path }));
  await Promise.all(streams.map((stream) => Promise.race([once(stream, "response"), whenClosed(stream)])));
  return streams;
}

async function leave(streams: readonly ClientHttp2Stream[]): Promise<void> {
  const left = Promise.all(streams.map(whenClosed));
  for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
  await left;
}

const certificate = makeCertificate("shared");
const ways: [string, ListenerOptions][] = [
  ["in cleartext", {}],
  ["over TLS", { readCertificate: () => certificate }],
];

test("a proxy's PINGs do not end its connection, whatever strangers have sent before them", async () => {
  // Otherwise what they sent would be forgotten with the next tick.
  holdTicks();
  onTestFinished(releaseTicks);
  await connectProxy({ readCertificate: () => certificate });
  await Promise.all(Array.from({ length: 3 }, () => post("/nowhere", Buffer.alloc(900_000))));
  await new Promise<void>((resolve) => session.ping(() => resolve()));
  expect(session.closed).toBe(false);
  expect(await send()).toBe(200);
});

test.each(ways)("%s, strangers who leave do not end a proxy's connection, however many", async (_, options) => {
  await connectProxy(options);
  // Of 100 at once, who has left counts for a moment longer.
  for (let left = 0; left < 720; left += 40) await leave(await ask("/long", 40));
  expect(session.closed).toBe(false);
  expect(await send()).toBe(200);
});

test.each(ways)("%s, answers that strangers do not take cost nobody a call on it", async (_, options) => {
  await connectProxy(options);
  const streams = await ask("/big", 90);
  expect(await send()).toBe(200);
  await leave(streams);
  expect(await send()).toBe(200);
  expect(session.closed).toBe(false);
});

test("a secret key's first call may come in pieces of any size", async () => {
  listener = await startListener();
  session = connect(listener.url);
  const headers = { "content-type": "application/json", authorization: `Bearer ${testKey}` };
  const stream = session.request({ ":method": "POST", ":path": "/v1/otp/send", ...headers });
  const answer = once(stream, "response");
  for (const piece of `${" ".repeat(400)}{"phone":"+31612345678"}`)
    await new Promise((resolve) => stream.write(piece, resolve));
  stream.resume().end();
  expect((await answer)[0]).toMatchObject({ ":status": 200 });
});

test("health watches with long headers make room, and no call that is on its way does for them", async () => {
  holdTicks();
  onTestFinished(releaseTicks);
  await connectProxy({ shared: [{ address: "127.0.0.0", bits: 8 }] });
  const others = [connectLikewise(), connectLikewise(), connectLikewise()];
  const asked = { ":method": "POST", "content-type": "application/grpc", "x-long": "x".repeat(15_000) };
  // 4 MiB are some 150.
  for (let wave = 0; wave < 9; wave += 1) {
    const watches = Array.from({ length: 25 }, () => {
      const other = others[wave % 3] as ClientHttp2Session;
      const watch = other.request({ ...asked, ":path": "/grpc.health.v1.Health/Watch" });
      watch.on("error", () => {}).end(Buffer.alloc(5));
      return watch.resume();
    });
    await Promise.all(watches.map((watch) => Promise.race([once(watch, "response"), whenClosed(watch)])));
  }
  const headers = { "content-type": "application/json", authorization: `Bearer ${pageKey}` };
  const call = session.request({ ":method": "POST", ":path": "/v1/otp/send", ...headers });
  call.write("{");
  await listener.came(9 * 25 + 1);
  // Who has come in this turn stays.
  await new Promise(setImmediate);
  passTicks(1_000);
  call.resume().end('"phone":"+31612345678"}');
  expect((await once(call, "response"))[0]).toMatchObject({ ":status": 200 });
  for (const other of others) other.destroy();
});

test("calls that come while strangers' requests wait for us are not dropped to make room", async () => {
  const given = Promise.withResolvers<void>();
  const answer: Page["answer"] = async () => {
    await given.promise;
    return { ok: true, value: { type: "text/plain", body: "given" } };
  };
  await connectProxy({ pageOf: () => ({ methods: ["GET"], answer }) });
  const others = Array.from({ length: 5 }, connectLikewise);
  expect(await send()).toBe(200);
  const long = { "x-long": "x".repeat(12_000) };
  // 4 MiB are some 130.
  for (const each of [session, ...others])
    for (let i = 0; i < 40; i += 1) each.request({ ":path": "/slow", ...long }).on("error", () => {});
  await listener.came(241);
  // Enough at once for what is held to be looked at anew.
  const call = () => post("/v1/otp/send", '{"phone":"+31612345678"}', { authorization: `Bearer ${testKey}`, ...long });
  expect(await Promise.all(Array.from({ length: 50 }, call))).toEqual(Array(50).fill(200));
  given.resolve();
  for (const other of others) other.destroy();
});

test.each([
  ["no secret key came", 0],
  ["secret keys came", 6],
])(
  "beyond what strangers may hold by connections on which %s, the answers that they do not take go, and no call beside them",
  async (_, keys) => {
    await connectProxy({});
    const others = Array.from({ length: 5 }, connectLikewise);
    const sent = await Promise.all([session, ...others].slice(0, keys).map((each) => send(each)));
    expect(sent).toEqual(Array(keys).fill(200));
    listener.hang();
    const call = post("/v1/otp/send", '{"phone":"+31612345678"}', { authorization: `Bearer ${pageKey}` });
    await listener.hanging(1);
    // 4 MiB are some 500.
    const asked = await Promise.all([session, ...others].map((each) => ask("/long", 90, each)));
    await Promise.race(asked.flat().map(whenClosed));
    listener.letGo();
    expect(await call).toBe(200);
    expect([session, ...others].filter(({ closed }) => closed)).toEqual([]);
    for (const other of others) other.destroy();
  },
);
