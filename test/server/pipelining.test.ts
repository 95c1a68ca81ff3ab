/** HTTP/1 requests sent without waiting for answers: a few are under way at a time, and none is lost. */
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import type { Page } from "../../src/server/pages/pages.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { callText, openRaw, type RawConnection } from "../support/clients/raw.ts";
import { startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});

/** A page that says which request it answers. */
const echo: Page = {
  methods: ["GET"],
  answer: async ({ target }) => ({
    ok: true,
    value: { type: "text/plain", body: Buffer.from(`<${target.split("?")[1]}>`) },
  }),
};
const certificate = makeCertificate("pipelining");

async function listenWith(options: ListenerOptions = {}): Promise<void> {
  listener = await startListener({ pageOf: (path) => (path === "/echo" ? echo : undefined), ...options });
}

async function open(isSecure: boolean): Promise<RawConnection> {
  const socket = isSecure
    ? connectTls({
        port: listener.port,
        host: "127.0.0.1",
        ca: certificate.cert,
        ALPNProtocols: ["http/1.1"],
      })
    : undefined;
  const connection = await openRaw(listener.port, socket);
  opened.push(connection);
  return connection;
}

const watchText =
  "POST /grpc.health.v1.Health/Watch HTTP/1.1\r\nhost: otpd\r\ncontent-type: application/connect+json\r\ncontent-length: 7\r\n\r\n\0\0\0\0\u0002{}";
const tunnel = "CONNECT otpd:443 HTTP/1.1\r\nhost: otpd\r\n\r\n";
const get = (n: number) => `GET /echo?${n} HTTP/1.1\r\nhost: otpd\r\n\r\n`;
const expecting = (text: string) => text.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
const echoesIn = (text: string) => [...text.matchAll(/<(\d+)>/g)].map(([, n]) => Number(n));

describe.each([
  ["cleartext", false],
  ["TLS", true],
])("over %s", (__, isSecure) => {
  const options = isSecure ? { readCertificate: () => certificate } : {};

  test("5,000 requests of a client that reads are all answered, in order", async () => {
    await listenWith(options);
    const connection = await open(isSecure);
    connection.write(numbers(5_000).map(get).join(""));
    await connection.until((bytes) => (bytes.includes("<4999>") ? true : undefined));
    expect(echoesIn(connection.text())).toEqual(numbers(5_000));
  });

  test("calls in front of a request for a tunnel end with their connection", async () => {
    await listenWith(options);
    listener.hang();
    const connection = await open(isSecure);
    connection.write(callText(testKey).repeat(3) + tunnel);
    await listener.hanging(3);
    connection.socket.destroy();
    await listener.answered(3);
    listener.letGo();
    expect(await listener.gateway.drain()).toBeUndefined();
  });

  test("a call that is in front of such a request, and has no body, gives its place back", async () => {
    await listenWith(options);
    listener.hang();
    const connection = await open(isSecure);
    connection.write(callText(testKey, "").replace(/^POST \S+/, `GET /v1/otp/${"A".repeat(22)}`) + tunnel);
    await listener.hanging(1);
    connection.socket.destroy();
    await listener.answered(1);
    listener.letGo();
    expect(await listener.gateway.drain()).toBeUndefined();
  });

  test.each([
    ["another request", get(1)],
    ["29 others like it", watchText.repeat(29)],
    ["a request for a tunnel, and a lot", tunnel + "x".repeat(100_000)],
  ])("a watch in front of %s ends: nobody would see its client leave", async (_, behind) => {
    await listenWith(options);
    const connection = await open(isSecure);
    connection.write(watchText + behind);
    await connection.closed;
    const later = await open(isSecure);
    later.write(watchText);
    await later.until((bytes) => (bytes.includes("SERVING") ? true : undefined));
    later.write(behind);
    expect((await later.closed).toString("latin1")).not.toContain("HTTP/1.1 4");
  });

  test("an answer that waits for the one in front of it is whole, though its client waits to be told to go on", async () => {
    await listenWith(options);
    listener.hang();
    const connection = await open(isSecure);
    connection.write(callText(testKey) + expecting(get(1)));
    await listener.hanging(1);
    listener.letGo();
    await connection.until((bytes) => (bytes.includes("<1>") ? true : undefined));
    expect(connection.text()).toMatch(/^HTTP\/1\.1 200 [^<]+HTTP\/1\.1 200 [^<]+\r\n\r\n<1>$/);
    expect(connection.text()).not.toContain("100 Continue");
  });

  test("who waits behind another call to be told to go on is told in its turn", async () => {
    await listenWith(options);
    listener.hang();
    const connection = await open(isSecure);
    const [head = "", body = ""] = callText(testKey).split("\r\n\r\n");
    connection.write(callText(testKey) + expecting(`${head}\r\n\r\n`));
    await listener.hanging(1);
    listener.letGo();
    await connection.until((bytes) => (bytes.includes("HTTP/1.1 100 Continue\r\n\r\n") ? true : undefined));
    connection.write(body);
    const statuses = () => connection.text().match(/(?<=HTTP\/1\.1 )\d+/g) ?? [];
    await connection.until(() => (statuses().length === 3 ? true : undefined));
    expect(statuses()).toEqual(["200", "100", "200"]);
  });

  test("at most 16 of a connection are under way, and another connection's are not held up", async () => {
    await listenWith(options);
    listener.hang();
    const connection = await open(isSecure);
    connection.write(callText(testKey).repeat(40));
    await listener.hanging(16);
    const other = await open(isSecure);
    other.write(get(1));
    await other.until((bytes) => (bytes.includes("<1>") ? true : undefined));
    other.write(callText(testKey));
    await listener.hanging(17);
    const isMore = await Promise.race([
      listener.hanging(18).then(() => true),
      new Promise((done) => setImmediate(done)),
    ]);
    expect(isMore).toBeUndefined();
    listener.letGo();
    await listener.answered(42);
    const statuses = listener.calls.map(({ status }) => status);
    expect(statuses).toEqual(Array.from({ length: 41 }, () => 200));
  });
});

test("a request that is answered is one of the 16 under way while its answer waits for the one in front of it", async () => {
  const go = Promise.withResolvers<void>();
  const slow: Page = {
    methods: ["GET"],
    answer: async (request) => {
      await go.promise;
      return echo.answer(request);
    },
  };
  await listenWith({ pageOf: (path) => (path === "/slow" ? slow : echo) });
  const connection = await open(false);
  connection.write(get(0).replace("/echo", "/slow") + callText(testKey).repeat(38) + get(1));
  await listener.called(15);
  // Whatever may be begun behind them is begun by the time that another connection was answered.
  const other = await open(false);
  other.write(get(2));
  await other.until((bytes) => (bytes.includes("<2>") ? true : undefined));
  expect(listener.asked).toBe(16 + 1);
  go.resolve();
  await connection.until((bytes) => (bytes.includes("<1>") ? true : undefined));
  expect(listener.calls).toHaveLength(38);
  expect(echoesIn(connection.text())).toEqual([0, 1]);
});

test.each([
  ["nonsense", "\0\0\r\n\r\n", 400],
  ["a CONNECT", tunnel, 405],
  ["a request without a Host", "GET /livez HTTP/1.1\r\n\r\n", 400],
  ["a request with two", "GET /livez HTTP/1.1\r\nHost: otpd\r\nhost: elsewhere\r\n\r\n", 400],
  [
    "a call in chunks over HTTP/1.0",
    callText(testKey, "")
      .replace("HTTP/1.1", "HTTP/1.0")
      .replace("content-length: 0", "connection: keep-alive\r\ntransfer-encoding: chunked")
      .concat("2\r\n{}\r\n0\r\n\r\n"),
    400,
  ],
  [
    "a call in another coding beside its chunks",
    `${callText(testKey, "").replace("content-length: 0", "transfer-encoding: gzip, chunked")}2\r\n{}\r\n0\r\n\r\n`,
    400,
  ],
  [
    "a GET in a coding that nobody knows",
    "GET /livez HTTP/1.1\r\nHost: otpd\r\nTransfer-Encoding: xchunked\r\n\r\n",
    400,
  ],
  ["a head that is too large", `GET / HTTP/1.1\r\nx-bomb: ${"x".repeat(20_000)}\r\n\r\n`, 431],
  [
    "a call whose body is no chunk",
    `${callText(testKey, "").replace("content-length: 0", "transfer-encoding: chunked")}?`,
    400,
  ],
])("%s behind a call under way is answered behind that call", async (_, text, status) => {
  await listenWith();
  listener.hang();
  const connection = await open(false);
  connection.write(callText(testKey) + text + text);
  await listener.hanging(1);
  const other = await open(false);
  other.write(get(1));
  await other.until((bytes) => (bytes.includes("<1>") ? true : undefined));
  expect(connection.text()).toBe("");
  listener.letGo();
  const answers = (await connection.closed).toString("latin1");
  expect(answers.match(/(?<=HTTP\/1\.1 )\d+/g)).toEqual(["200", `${status}`]);
});

test.each([
  ["a wrong key", callText("wrong key", "")],
  ["a path that is not there", callText(testKey, "").replace("/v1/otp/send", "/nowhere")],
])("a call with %s is answered once, also where its body is no chunk", async (_, text) => {
  await listenWith();
  const connection = await open(false);
  connection.write(text.replace("content-length: 0", "transfer-encoding: chunked"));
  await connection.until((bytes) => (bytes.includes("HTTP/1.1 40") ? true : undefined));
  connection.write("?\r\n\r\n");
  const answers = (await connection.closed).toString("latin1");
  expect(answers.match(/(?<=HTTP\/1\.1 )\d+/g)).toHaveLength(1);
});

test("requests that come a byte at a time, and bodies with empty lines in them, are read as they are", async () => {
  await listenWith();
  const connection = await open(false);
  const body = '\r\n\r\n{"phone":\r\n\r\n"+31612345678"}\r\n\r\n';
  for (const char of get(1) + callText(testKey, body) + get(2)) connection.write(char);
  connection.write(callText(testKey, body) + get(3) + callText(testKey, body).repeat(20) + get(4));
  await connection.until((bytes) => (bytes.includes("<4>") ? true : undefined));
  expect(echoesIn(connection.text())).toEqual([1, 2, 3, 4]);
  expect(listener.calls.map(({ status }) => status)).toEqual(Array.from({ length: 22 }, () => 200));
});

test("what comes with the client's end is answered still", async () => {
  await listenWith();
  const connection = await open(false);
  connection.socket.end(numbers(100).map(get).join(""));
  await connection.closed;
  // A client that has ended takes no more; what it is owed until then comes in order.
  const echoes = echoesIn(connection.text());
  expect(echoes).toEqual(numbers(echoes.length));
});
