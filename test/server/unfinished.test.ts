/**
 * Requests that do not come to their end, and answers that nobody takes: they hold up nobody else. What a stranger leaves
 * undone takes no place of a call, what a page's caller leaves undone takes his address's share, and a stop waits for it.
 */
import { constants } from "node:http2";
import { afterEach, expect, test } from "vitest";
import { refuse } from "../../src/otp/reason.ts";
import type { Page } from "../../src/server/pages/pages.ts";
import { pageKey, startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";
import {
  callFrames,
  callHeaders,
  callText,
  flag,
  frame,
  framesIn,
  frameType,
  headerBlock,
  openRaw,
  preface,
  settings,
  type Frame,
  type RawConnection,
} from "../support/clients/raw.ts";
import { overHttp1 } from "../support/clients/wire.ts";

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});

/** A page, and what acts on a whole body, as a provider's report does. */
const page: Page = {
  methods: ["GET", "HEAD"],
  answer: async () => ({ ok: true, value: { type: "text/plain", body: "here" } }),
};
const report: Page = {
  methods: ["GET", "POST"],
  acts: true,
  answer: async ({ body }) =>
    body.length === 2 ? { ok: true, value: { type: "text/plain", body: "taken" } } : refuse("API_KEY_INVALID"),
};
const pages: Readonly<Record<string, Page>> = { "/page": page, "/report": report };

/** The same page, asked but not answered until it is told to go on. */
function heldUp(like: Page) {
  const [came, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const answer: Page["answer"] = async (request) => {
    came.resolve();
    await go.promise;
    return like.answer(request);
  };
  return { page: { ...like, answer }, came: came.promise, go: go.resolve };
}

async function listenWith(options: ListenerOptions): Promise<void> {
  listener = await startListener({ pageOf: (path) => pages[path], ...options });
}

async function open(...first: (string | Uint8Array)[]): Promise<RawConnection> {
  const connection = await openRaw(listener.port);
  opened.push(connection);
  connection.write(...first);
  return connection;
}

const hello = [preface, settings()];

test("a HEAD that is taken back before its answer is over", async () => {
  const slow = heldUp(page);
  await listenWith({ pageOf: () => slow.page });
  const connection = await open(...hello, finished("HEAD", "/slow")(1));
  await slow.came;
  connection.write(frame(frameType.reset, 0, 1, Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL])));
  await listener.answered(1);
  slow.go();
  expect(connection.socket.destroyed).toBe(false);
});

/** Nothing of any answer's body may be sent. */
const shut = [preface, settings([4, 0])];
const times = <T>(count: number, make: (stream: number) => T) =>
  Array.from({ length: count }, (_, i) => make(2 * i + 1));

function headersOf(method: string, path: string, more: Record<string, string> = {}): Buffer {
  return headerBlock({ ":method": method, ":scheme": "http", ":path": path, ":authority": "otpd", ...more });
}

/** Opens a stream and leaves it without an end, or with it. */
const unfinished = (method: string, path: string, more?: Record<string, string>) => (stream: number) =>
  frame(frameType.headers, flag.endHeaders, stream, headersOf(method, path, more));
const finished = (method: string, path: string) => (stream: number) =>
  frame(frameType.headers, flag.endHeaders | flag.endStream, stream, headersOf(method, path));

/** A call whose body is yet to come. */
const callWithoutBody = (key: string) => (stream: number) =>
  frame(frameType.headers, flag.endHeaders, stream, callHeaders(listener.port, { authorization: `Bearer ${key}` }));

const whenFrames = (connection: RawConnection, count: number, wanted: (frame: Frame) => boolean) =>
  connection.until((bytes) => {
    const found = framesIn(bytes).filter(wanted);
    return found.length >= count ? found : undefined;
  });
const isHead = ({ type }: Frame) => type === frameType.headers;
const isReset = ({ type }: Frame) => type === frameType.reset;
const bodiesIn = (connection: RawConnection) =>
  framesIn(Buffer.from(connection.text(), "latin1"))
    .filter(({ type }) => type === frameType.data)
    .map(({ payload }) => payload.toString());

const send = async () => {
  const headers = { authorization: `Bearer ${testKey}`, "content-type": "application/json" };
  const { status, text } = await overHttp1(listener.url, {
    path: "/v1/otp/send",
    headers,
    body: '{"phone":"+31612345678"}',
  });
  return { status, reason: (JSON.parse(text) as { reason?: string }).reason };
};
const sent = { status: 200, reason: undefined };
const noRoom = { status: 503, reason: "STORE_UNAVAILABLE" };

test.each(["GET", "HEAD"])(
  "a %s of a page without an end is answered at once, and its stream closed",
  async (method) => {
    await listenWith({ callsMax: 1 });
    const connection = await open(...hello, ...times(50, unfinished(method, "/page")));
    const resets = await whenFrames(connection, 50, isReset);
    expect(new Set(resets.map(({ payload }) => payload.readUInt32BE(0)))).toEqual(
      new Set([constants.NGHTTP2_NO_ERROR]),
    );
    expect(bodiesIn(connection)).toEqual(method === "GET" ? Array.from({ length: 50 }, () => "here") : []);
    expect(await send()).toEqual(sent);
  },
);

test("a preflight without an end is answered at once, and its stream closed", async () => {
  await listenWith({});
  const asked = { origin: "https://a.example", "access-control-request-method": "POST" };
  const connection = await open(...hello, unfinished("OPTIONS", "/v1/otp/send", asked)(1));
  await whenFrames(connection, 1, isReset);
  expect(bodiesIn(connection).join("")).toContain("ORIGIN_NOT_ALLOWED");
});

test("a stranger who takes none of 16 answers gets no further one on that connection, and may ask again", async () => {
  await listenWith({});
  const get = finished("GET", "/page");
  const connection = await open(...shut, ...times(40, get));
  await whenFrames(connection, 16, isHead);
  connection.write(get(81));
  const [refused] = await whenFrames(connection, 1, (one) => isReset(one) && one.stream === 81);
  expect(refused?.payload.readUInt32BE(0)).toBe(constants.NGHTTP2_REFUSED_STREAM);
  const reading = await open(...hello, ...times(100, get));
  await whenFrames(reading, 100, (one) => one.type === frameType.data && one.payload.toString() === "here");
});

test("16 requests of HEAD that wait for us are no answers left untaken: what comes behind them is answered", async () => {
  const slow = heldUp(page);
  await listenWith({ pageOf: () => slow.page });
  const heads = times(16, finished("HEAD", "/slow"));
  const connection = await open(...hello, ...heads, callFrames(listener.port, 33, testKey));
  const [first] = await whenFrames(connection, 1, (one) => isHead(one) || isReset(one));
  expect(first).toMatchObject({ type: frameType.headers, stream: 33 });
  slow.go();
  await whenFrames(connection, 17, isHead);
});

test("100 calls at once on a fresh connection are all let in, though its key is known to none before the first", async () => {
  await listenWith({});
  listener.hang();
  const connection = await open(...hello, ...times(100, (stream) => callFrames(listener.port, stream, testKey)));
  await listener.hanging(100);
  listener.letGo();
  const statuses = await whenFrames(connection, 100, isHead);
  expect([statuses.length, listener.calls.filter(({ status }) => status === 200).length]).toEqual([100, 100]);
});

test("a preflight takes no place of a call while its origin is looked up", async () => {
  await listenWith({ callsMax: 1 });
  listener.hang();
  await open(callText(testKey));
  await listener.hanging(1);
  const asked = { origin: "https://a.example", "access-control-request-method": "POST" };
  const { text } = await overHttp1(listener.url, { method: "OPTIONS", path: "/v1/otp/send", headers: asked });
  expect(text).toContain("ORIGIN_NOT_ALLOWED");
});

test("an address that many callers share has no share of reports", async () => {
  await listenWith({ shared: [{ address: "127.0.0.0", bits: 8 }] });
  const connection = await open(...hello, ...times(10, unfinished("POST", "/report")));
  connection.write(frame(frameType.data, flag.endStream, 19, Buffer.from("{}")));
  const [answered] = await whenFrames(connection, 1, isHead);
  expect([answered?.stream, bodiesIn(connection)]).toEqual([19, ["taken"]]);
});

const pageSend = { path: "/v1/otp/send", max: 16, key: pageKey, body: '{"phone":"+31612345678"}' };
const reported = { path: "/report", max: 64, key: "", body: "{}" };
test.each([
  { of: "reports", begun: 0, left: 47, ...reported },
  { of: "reports", begun: 20, left: 43, ...reported },
  { of: "a page's calls", begun: 0, left: 11, ...pageSend },
  { of: "a page's calls", begun: 5, left: 10, ...pageSend },
])(
  "of all bodies of $of strangers of an address that many share have three quarters, and none of the $begun that others have begun",
  async ({ path, max, key, body, begun, left }) => {
    await listenWith({ callsMax: 32, shared: [{ address: "127.0.0.1", bits: 32 }] });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const fields = Object.entries({ ...headers, host: "otpd", "content-length": body.length, connection: "close" });
    const head = [`POST ${path} HTTP/1.1`, ...fields.map((field) => field.join(": ")), "\r\n"].join("\r\n");
    const others: RawConnection[] = [];
    for (let i = 0; i < begun; i += 1) {
      const other = await openRaw(listener.port, undefined, `127.0.0.${2 + (i % 5)}`);
      others.push(other);
      other.write(head, body.slice(0, 1));
    }
    await listener.came(begun);
    const undone: RawConnection[] = [];
    const each = max / 8;
    for (let i = 0; i < 8; i += 1) {
      const connection = await open(...hello, ...times(each, unfinished("POST", path, headers)));
      undone.push(connection);
      // Behind all of those.
      connection.write(finished("GET", "/page")(2 * each + 1));
      await whenFrames(connection, 1, ({ stream, flags }) => stream === 2 * each + 1 && (flags & flag.endStream) !== 0);
    }
    for (const from of ["127.0.0.9", "127.0.0.1"])
      expect((await overHttp1(listener.url, { path, headers, body, from })).status).toBe(200);
    for (const other of others) other.write(body.slice(1));
    const answers = await Promise.all(others.map(async ({ closed }) => (await closed).toString().slice(0, 12)));
    expect(answers).toEqual(Array.from({ length: begun }, () => "HTTP/1.1 200"));
    const isLost = ({ type, stream, flags }: Frame) =>
      stream % 2 === 1 && stream < 2 * each && (type === frameType.reset || (flags & flag.endStream) !== 0);
    const lostOn = (connection: RawConnection) =>
      new Set(
        framesIn(Buffer.from(connection.text(), "latin1"))
          .filter(isLost)
          .map(({ stream }) => stream),
      ).size;
    const leftNow = () => undone.reduce((sum, connection) => sum + each - lostOn(connection), 0);
    await expect.poll(leftNow, { timeout: 60_000 }).toBe(left);
  },
);

test("all bodies of a page's calls that there may be, left undone by strangers of one address, refuse nobody elsewhere", async () => {
  const { path, max, key, body } = pageSend;
  await listenWith({ callsMax: 32 });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const undone = await open(...hello, ...times(max, unfinished("POST", path, headers)));
  await listener.came(max);
  expect((await overHttp1(listener.url, { path, headers, body, from: "127.0.0.2" })).status).toBe(200);
  // The oldest of those has made room.
  const [reset] = await whenFrames(undone, 1, isReset);
  expect(reset?.stream).toBe(1);
});

test("a page is answered on HTTP/1 before the body that its head promises", async () => {
  await listenWith({ callsMax: 1 });
  const connection = await open("GET /page HTTP/1.1\r\nhost: otpd\r\ncontent-length: 5\r\n\r\n");
  await connection.until((bytes) => (bytes.toString().endsWith("here") ? true : undefined));
  expect(await send()).toEqual(sent);
});

test("pages are answered at a full house, and reports refused", async () => {
  await listenWith({ callsMax: 1 });
  listener.hang();
  await open(callText(testKey));
  await listener.hanging(1);
  expect((await overHttp1(listener.url, { method: "GET", path: "/page" })).text).toBe("here");
  expect((await overHttp1(listener.url, { path: "/report", body: "{}" })).text).toContain(noRoom.reason);
});

test("reports are read eight at a time for each address, take no place meanwhile, and act once they are whole", async () => {
  await listenWith({ callsMax: 1 });
  const connection = await open(...hello, ...times(10, unfinished("POST", "/report")));
  const [refused] = await whenFrames(connection, 2, isHead);
  expect([17, 19]).toContain(refused?.stream);
  expect(bodiesIn(connection).map((body) => (JSON.parse(body) as { reason: string }).reason)).toEqual([
    "IP_RATE_LIMITED",
    "IP_RATE_LIMITED",
  ]);
  expect(await send()).toEqual(sent);
  connection.write(frame(frameType.data, flag.endStream, 1, Buffer.from("{}")));
  await whenFrames(connection, 3, isHead);
  expect(bodiesIn(connection).at(-1)).toBe("taken");
});

test("a report takes a call's place once it is whole, until it is answered", async () => {
  const slow = heldUp(report);
  await listenWith({ callsMax: 1, pageOf: () => slow.page });
  const connection = await open(...hello, unfinished("POST", "/report")(1));
  connection.write(frame(frameType.data, flag.endStream, 1, Buffer.from("{}")));
  await slow.came;
  expect(await send()).toEqual(noRoom);
  slow.go();
  await listener.answered(2);
  expect(await send()).toEqual(sent);
});

test("calls whose body is yet to come take no place, and one that finds none when its body is whole is refused", async () => {
  await listenWith({ callsMax: 2 });
  const connection = await open(...hello, ...times(2, callWithoutBody(testKey)));
  await listener.came(2);
  listener.hang();
  const get = (key: string) =>
    `GET /v1/otp/${"A".repeat(22)} HTTP/1.1\r\nhost: otpd\r\nauthorization: Bearer ${key}\r\n\r\n`;
  await open(get(testKey));
  await open(get(testKey));
  await listener.hanging(2);
  connection.write(frame(frameType.data, flag.endStream, 1, Buffer.from('{"phone":"+31612345678"}')));
  await whenFrames(connection, 1, isHead);
  expect(bodiesIn(connection).join("")).toContain("STORE_UNAVAILABLE");
  listener.letGo();
  await listener.answered(3);
  connection.write(frame(frameType.data, flag.endStream, 3, Buffer.from('{"phone":"+31612345678"}')));
  await whenFrames(connection, 2, isHead);
  expect(bodiesIn(connection).at(-1)).toContain("STATE_PENDING");
});

test("callers with a page's key leave at most 32 calls of an address undone, and no other caller is refused", async () => {
  await listenWith({ callsMax: 64 });
  const connection = await open(...hello, ...times(40, callWithoutBody(pageKey)));
  await whenFrames(connection, 8, isHead);
  expect(new Set(bodiesIn(connection).map((body) => (JSON.parse(body) as { code: string }).code))).toEqual(
    new Set(["resource_exhausted"]),
  );
  expect(await send()).toEqual(sent);
  connection.write(frame(frameType.data, flag.endStream, 1, Buffer.from('{"phone":"+31612345678"}')));
  await whenFrames(connection, 9, isHead);
  expect(bodiesIn(connection).at(-1)).toContain("STATE_PENDING");
});

test("an address that many callers share has no share of a page's calls", async () => {
  await listenWith({ callsMax: 128, shared: [{ address: "127.0.0.0", bits: 8 }] });
  const connection = await open(...hello, ...times(40, callWithoutBody(pageKey)));
  connection.write(frame(frameType.data, flag.endStream, 79, Buffer.from('{"phone":"+31612345678"}')));
  const [answered] = await whenFrames(connection, 1, isHead);
  expect(answered?.stream).toBe(79);
  expect(bodiesIn(connection)).toEqual([expect.stringContaining("STATE_PENDING")]);
});

test("a call keeps its place until its answer was taken", async () => {
  await listenWith({ callsMax: 2 });
  const connection = await open(...shut, ...times(2, (stream) => callFrames(listener.port, stream, testKey)));
  await whenFrames(connection, 2, isHead);
  expect(await send()).toEqual(noRoom);
  // A window for the first answer.
  connection.write(frame(frameType.windowUpdate, 0, 1, Buffer.from([0, 1, 0, 0])));
  await listener.answered(2);
  expect(await send()).toEqual(sent);
});

test("a call on HTTP/1 keeps its place while its answer waits for the one in front of it", async () => {
  const slow = heldUp(page);
  await listenWith({ callsMax: 2, pageOf: () => slow.page });
  await open("GET /page HTTP/1.1\r\nhost: otpd\r\n\r\n", callText(testKey).repeat(2));
  await listener.called(2);
  expect(await send()).toEqual(noRoom);
  slow.go();
  await listener.answered(4);
  expect(await send()).toEqual(sent);
});

test("refusals and pages that nobody takes keep no place", async () => {
  await listenWith({ callsMax: 2 });
  const connection = await open(
    ...shut,
    ...times(20, (stream) => callFrames(listener.port, stream, "wrong key")),
    ...times(20, (stream) => unfinished("GET", "/page")(40 + stream)),
  );
  await whenFrames(connection, 40, isHead);
  expect(await send()).toEqual(sent);
});

test("a stop waits for the bodies that are being read, and for what a report does", async () => {
  const slow = heldUp(report);
  await listenWith({ pageOf: () => slow.page });
  const connection = await open(
    ...hello,
    callWithoutBody(testKey)(1),
    unfinished("POST", "/report")(3),
    frame(frameType.ping, 0, 0, Buffer.alloc(8)),
  );
  await whenFrames(connection, 1, ({ type }) => type === frameType.ping);
  let isDrained = false;
  const drained = listener.gateway.drain().then(() => (isDrained = true));
  expect(await send()).toMatchObject({ reason: "SHUTTING_DOWN" });
  connection.write(frame(frameType.data, flag.endStream, 1, Buffer.from('{"phone":"+31612345678"}')));
  await whenFrames(connection, 1, isHead);
  expect(isDrained).toBe(false);
  connection.write(frame(frameType.data, flag.endStream, 3, Buffer.from("{}")));
  await slow.came;
  expect(await send()).toMatchObject({ reason: "SHUTTING_DOWN" });
  expect(isDrained).toBe(false);
  slow.go();
  await whenFrames(connection, 2, isHead);
  await drained;
  expect(bodiesIn(connection).join("")).toMatch(/STATE_PENDING.*taken/);
});
