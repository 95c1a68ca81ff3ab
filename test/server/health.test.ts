/**
 * grpc.health.v1 as its clients use it: over gRPC by Connect's client and, where there is one, by Python's; told of a stop
 * before any connection is closed; and no way to wear the server out without a key.
 */
import { Code, ConnectError, createClient, type Client, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { rmSync } from "node:fs";
import { Agent, createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";
import { runPython } from "../support/clients/grpc/python.ts";
import { lacks } from "../support/machine.ts";
import { callText, flag, frame, framesIn, frameType, openRaw, preface, settings } from "../support/clients/raw.ts";
import { headersFrame, hello, hold } from "../support/clients/strangers.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { startWorld, temporaryFolder } from "../support/service/world.ts";

const service = "otp.v1.OtpService";
const transports: [string, (baseUrl: string) => Transport][] = [
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["gRPC-web", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
  ["Connect over HTTP/1.1", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true })],
];

function overGrpc(baseUrl: string, nodeOptions: { localAddress?: string } = {}): Client<typeof Health> {
  return createClient(Health, createGrpcTransport({ baseUrl, nodeOptions: nodeOptions as object }));
}

/** A watch, and what it was told so far. */
function watch(client: Client<typeof Health>, name = "") {
  const statuses: Status[] = [];
  const first = Promise.withResolvers<void>();
  const leaving = new AbortController();
  const ended = (async () => {
    for await (const { status } of client.watch({ service: name }, { signal: leaving.signal })) {
      statuses.push(status);
      first.resolve();
    }
  })();
  ended.catch(first.reject);
  return { statuses, first: first.promise, ended, leave: () => leaving.abort() };
}

async function codeOf(call: Promise<unknown>): Promise<Code | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

describe("while the server serves", () => {
  let listener: Listener;
  beforeAll(async () => {
    listener = await startListener();
  });
  afterAll(() => listener.stop());

  test.each(transports)("%s tells it of the server and of the service, without a key", async (_, transportTo) => {
    const client = createClient(Health, transportTo(listener.url));
    for (const name of ["", service]) expect((await client.check({ service: name })).status).toBe(Status.SERVING);
    expect(await codeOf(client.check({ service: "otp.v1.Nonsense" }))).toBe(Code.NotFound);
    const { statuses } = await client.list({});
    expect(Object.entries(statuses).map(([name, { status }]) => [name, status])).toEqual([
      ["", Status.SERVING],
      [service, Status.SERVING],
    ]);
    const watching = watch(client, "otp.v1.Nonsense");
    await watching.first;
    watching.leave();
    expect(await codeOf(watching.ended)).toBe(Code.Canceled);
    expect(watching.statuses).toEqual([Status.SERVICE_UNKNOWN]);
  });

  test("JSON by any client does", async () => {
    const path = "/grpc.health.v1.Health/Check";
    const headers = { "content-type": "application/json" };
    const ask = (body: string) => overHttp1(listener.url, { path, headers, body });
    expect(JSON.parse((await ask("{}")).text)).toEqual({ status: "SERVING" });
    expect((await ask('{"service":"otp.v1.Nonsense"}')).status).toBe(404);
    const refused = await ask('{"serviec":"123456"}');
    expect([refused.status, refused.text.includes("123456")]).toEqual([400, false]);
  });

  test("what is no call of it is refused as anywhere else", async () => {
    const path = "/grpc.health.v1.Health/Check";
    const get = await overHttp1(listener.url, { method: "GET", path });
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    const text = await overHttp1(listener.url, { path, headers: { "content-type": "text/plain" }, body: "x" });
    expect(text.status).toBe(415);
    const headers = { "content-type": "application/json" };
    expect((await overHttp1(listener.url, { path, headers, body: "x".repeat(5_000) })).status).toBe(413);
    const chunked = await overHttp1(listener.url, { path, headers, body: "x".repeat(50_000), chunked: true });
    expect([chunked.status, chunked.text]).toEqual([413, expect.stringContaining("The body is larger than 4 KiB.")]);
    expect((await overHttp1(listener.url, { path: "/grpc.health.v1.Health/Chekc", headers, body: "{}" })).status).toBe(
      404,
    );
  });

  test.each([
    ["no host", "POST /grpc.health.v1.Health/Check HTTP/1.0"],
    ["no name of a host", "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nconnection: close\r\nhost: a b"],
    [
      "such a host in its path",
      "POST http://[/grpc.health.v1.Health/Check HTTP/1.1\r\nconnection: close\r\nhost: otpd",
    ],
  ])("a request that names %s is answered", async (_, first) => {
    const raw = await openRaw(listener.port);
    raw.write(`${first}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`);
    expect((await raw.closed).toString("latin1")).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"status":"SERVING"\}$/);
  });

  test.skipIf(lacks("health by Python's client", "Python's grpcio"))("Python's client hears it", async () => {
    const script = `
import grpc, sys
channel = grpc.insecure_channel(sys.argv[1])
raw = dict(request_serializer=None, response_deserializer=None)
check = channel.unary_unary("/grpc.health.v1.Health/Check", **raw)
name = b"otp.v1.OtpService"
print(check(b"", timeout=60).hex(), check(b"\\x0a" + bytes([len(name)]) + name, timeout=60).hex())
try:
    check(b"\\x0a\\x01x", timeout=60)
except grpc.RpcError as error:
    print(error.code().name)
watching = channel.unary_stream("/grpc.health.v1.Health/Watch", **raw)(b"", timeout=60)
print(next(iter(watching)).hex())
watching.cancel()
`;
    expect(await runPython(script, [new URL(listener.url).host])).toEqual(["0801 0801", "NOT_FOUND", "0801"]);
  });
});

describe("a watch", () => {
  let listener: Listener;
  afterEach(() => listener.stop());

  test("is not cut for taking long, as a call is that dawdles", async () => {
    listener = await startListener({ limits: { callMs: 300 } });
    const watching = watch(overGrpc(listener.url));
    await watching.first;
    listener.hang();
    // Twice as long as any call may take.
    for (let i = 0; i < 2; i += 1) {
      const raw = await openRaw(listener.port);
      raw.write(callText(testKey));
      await raw.closed;
    }
    await listener.stop();
    await watching.ended;
    expect(watching.statuses).toEqual([Status.SERVING, Status.NOT_SERVING]);
  });

  test("is one of a bounded number, which keeps nobody from a check, and its place is free once it has ended", async () => {
    listener = await startListener({ openRpcs: { server_streaming: { max: 3 } } });
    const client = overGrpc(listener.url);
    const watches = [watch(client), watch(client), watch(client)] as const;
    await Promise.all(watches.map(({ first }) => first));
    expect(await codeOf(watch(client).first)).toBe(Code.ResourceExhausted);
    expect((await client.check({})).status).toBe(Status.SERVING);
    expect(Object.keys((await client.list({})).statuses)).toEqual(["", service]);
    const answered = listener.answered(4);
    watches[0].leave();
    await answered;
    await watch(client).first;
  });

  test("is one of its address's, unless many share it", async () => {
    listener = await startListener({
      openRpcs: { server_streaming: { max: 6, perAddressMax: 2 } },
      shared: [{ address: "127.0.0.4", bits: 32 }],
    });
    const from = (localAddress: string) => overGrpc(listener.url, { localAddress });
    const [greedy, other, shared] = [from("127.0.0.2"), from("127.0.0.3"), from("127.0.0.4")];
    const oldest = watch(greedy);
    await oldest.first;
    for (const client of [greedy, other]) await watch(client).first;
    expect(await codeOf(watch(greedy).first)).toBe(Code.ResourceExhausted);
    for (const client of [shared, shared, shared]) await watch(client).first;
    // All there are, now: who has the most makes room for who has fewer.
    await watch(other).first;
    expect(await codeOf(oldest.ended)).toBe(Code.Canceled);
    for (const client of [greedy, other, shared]) expect((await client.check({})).status).toBe(Status.SERVING);
  });

  test("of a client that has left costs nothing more", async () => {
    listener = await startListener({ openRpcs: { server_streaming: { max: 1 } } });
    const raw = await openRaw(listener.port);
    const body = Buffer.from([0, 0, 0, 0, 2, 0x7b, 0x7d]);
    raw.write(
      `POST /grpc.health.v1.Health/Watch HTTP/1.1\r\nhost: x\r\ncontent-type: application/connect+json\r\ncontent-length: ${body.length}\r\n\r\n`,
      body,
    );
    await raw.until((bytes) => (bytes.includes("SERVING") ? true : undefined));
    const answered = listener.answered(1);
    raw.destroy();
    await answered;
    const next = watch(overGrpc(listener.url));
    await next.first;
    expect(next.statuses).toEqual([Status.SERVING]);
  });
});

describe("a check", () => {
  const checkHead = headersFrame("POST", "/grpc.health.v1.Health/Check", "application/grpc").subarray(9);
  let listener: Listener;
  afterEach(() => listener.stop());

  test.each([
    ["checks", "/grpc.health.v1.Health/Check"],
    ["watches", "/grpc.health.v1.Health/Watch"],
  ])("is answered beside any number of %s that are not ended", async (_, path) => {
    const none = { max: 1, perAddressMax: 1 };
    listener = await startListener({ openRpcs: { server_streaming: none } });
    const raw = await openRaw(listener.port);
    raw.write(...hello, headersFrame("POST", path, "application/grpc"));
    // Taken after them, since frames are taken in order.
    raw.write(frame(frameType.ping, 0, 0, Buffer.alloc(8, 1)));
    await raw.until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.ping));
    expect((await overGrpc(listener.url).check({})).status).toBe(Status.SERVING);
    await watch(overGrpc(listener.url)).first;
    raw.destroy();
  });

  test("is answered beside any number whose answer is not taken, of its own address too", async () => {
    listener = await startListener();
    // As many on each connection as one may leave untaken.
    const streams = Array.from({ length: 16 }, (_, i) => 2 * i + 1);
    const checks = streams.flatMap((stream) => [
      frame(frameType.headers, flag.endHeaders, stream, checkHead),
      frame(frameType.data, flag.endStream, stream, Buffer.alloc(5)),
    ]);
    const held = await hold(listener.port, "127.0.0.2", 7, preface, settings([4, 0]), ...checks);
    const answers = (bytes: Buffer) => framesIn(bytes).filter(({ type }) => type === frameType.headers).length;
    await Promise.all(held.map((each) => each.until((bytes) => (answers(bytes) >= 16 ? true : undefined))));
    for (const localAddress of ["127.0.0.1", "127.0.0.2"]) {
      expect((await overGrpc(listener.url, { localAddress }).check({})).status).toBe(Status.SERVING);
    }
    for (const each of held) each.destroy();
  });

  test("is one of eight that are begun in a turn of the event loop", async () => {
    let inThisTurn = 0;
    const inTurns: number[] = [];
    const check = () => ((inThisTurn += 1), { status: Status.SERVING });
    listener = await startListener({ openRoutes: (router) => void router.service(Health, { check }) });
    const checks = Array.from({ length: 90 }, (_, i) => [
      frame(frameType.headers, flag.endHeaders, 2 * i + 1, checkHead),
      frame(frameType.data, flag.endStream, 2 * i + 1, Buffer.alloc(5)),
    ]).flat();
    const crowd = await hold(listener.port, "127.0.0.2", 6, preface, settings(), ...checks);
    const isAnswered = crowd.map((each) =>
      each.until((bytes) =>
        framesIn(bytes).filter(({ type }) => type === frameType.headers).length >= 90 ? 1 : undefined,
      ),
    );
    let isOver = false;
    void Promise.all(isAnswered).finally(() => (isOver = true));
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      inTurns.push(inThisTurn);
      inThisTurn = 0;
    }
    await Promise.all(isAnswered);
    expect(Math.max(...inTurns)).toBeLessThanOrEqual(8);
    for (const each of crowd) each.destroy();
  });
});

test("a thousand watches of the real process refuse nobody's check", async () => {
  const folder = temporaryFolder();
  const otpd = await startOtpd(folder);
  const watchText =
    "POST /grpc.health.v1.Health/Watch HTTP/1.1\r\nhost: x\r\ncontent-type: application/connect+json\r\ncontent-length: 7\r\n\r\n\0\0\0\0\u0002{}";
  const addresses = Array.from({ length: 10 }, (_, i) => `127.0.0.${2 + i}`);
  const held = await Promise.all(addresses.map((from) => hold(Number(new URL(otpd.url).port), from, 100, watchText)));
  const all = held.flat();
  await Promise.all(all.map((each) => each.until((bytes) => (bytes.includes("SERVING") ? true : undefined))));
  for (const localAddress of ["127.0.0.1", ...addresses]) {
    expect((await overGrpc(otpd.url, { localAddress }).check({})).status).toBe(Status.SERVING);
  }
  for (const localAddress of addresses) {
    expect(await codeOf(watch(overGrpc(otpd.url, { localAddress })).first)).toBe(Code.ResourceExhausted);
  }
  // The oldest of an address that has a hundred makes room for another address.
  await watch(overGrpc(otpd.url)).first;
  await Promise.race(all.map(({ closed }) => closed));
  for (const each of all) each.destroy();
  await otpd.end();
  rmSync(folder, { recursive: true, force: true });
});

/** Watches of the server, of the service and of nothing, each of which has been told something. */
async function watchThree(client: Client<typeof Health>) {
  const watches = ["", service, "otp.v1.Nonsense"].map((name) => watch(client, name));
  await Promise.all(watches.map(({ first }) => first));
  return watches;
}
/** What they are told by a stop. */
const statusesOfStop = [
  [Status.SERVING, Status.NOT_SERVING],
  [Status.SERVING, Status.NOT_SERVING],
  [Status.SERVICE_UNKNOWN],
];

// In this very process: idle connections stay open for a third of a second, which passes here when the test says so.
test("a stop is told before any connection is closed", async ({ onTestFinished }) => {
  const world = await startWorld();
  onTestFinished(() => void vi.useRealTimers());
  // The provider takes its time, so that there is a call under way.
  const [called, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<SendOutcome>()];
  world.network.script.push(() => {
    called.resolve();
    return answered.promise;
  });
  const { url, key } = world;
  const clients = [overGrpc(url), overGrpc(url)] as const;
  // Connections that are open when the stop begins: each is told to close with its next answer.
  const agents = [new Agent({ keepAlive: true }), new Agent({ keepAlive: true })] as const;
  const probe = async (agent: Agent, path: string) => {
    const { status, text } = await overHttp1(url, { method: "GET", path, agent });
    return [status, (JSON.parse(text) as { checks?: { serving: string } }).checks?.serving];
  };
  expect(await Promise.all(agents.map((agent) => probe(agent, "/readyz")))).toEqual(agents.map(() => [200, "ok"]));
  const watches = await watchThree(clients[0]);
  expect((await clients[1].check({ service })).status).toBe(Status.SERVING);
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const sending = fetch(`${url}/v1/otp/send`, { method: "POST", headers, body: '{"phone":"+31612345678"}' });
  await called.promise;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const stopped = world.stop();
  await Promise.all(watches.map((each) => each.ended));
  expect(watches.map(({ statuses }) => statuses)).toEqual(statusesOfStop);
  // Their connections were idle and are open still: all three at once.
  const [check, ready, live] = await Promise.all([
    clients[1].check({ service }),
    probe(agents[0], "/readyz"),
    probe(agents[1], "/livez"),
  ]);
  expect(check.status).toBe(Status.NOT_SERVING);
  expect(ready).toEqual([503, "failing"]);
  expect(live).toEqual([200, undefined]);
  answered.resolve({ kind: "accepted" });
  expect((await sending).status).toBe(200);
  vi.runOnlyPendingTimers();
  vi.useRealTimers();
  await stopped;
});

test("watches do not hold up a stop", async () => {
  const folder = temporaryFolder();
  // There is a call under way, which waits for a provider.
  const provider = createServer(() => {}).listen(0, "127.0.0.1");
  await once(provider, "listening");
  const otpd = await startOtpd(folder, {
    OTP_PROVIDERS: "webhook",
    OTP_WEBHOOK_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}/`,
    OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
    OTP_ALLOWED_COUNTRIES: "NL",
    OTP_SEND_WAIT_MS: "1000",
  });
  const headers = { authorization: `Bearer ${await firstKey(otpd)}`, "content-type": "application/json" };
  const watches = await watchThree(overGrpc(otpd.url));
  const called = once(provider, "request");
  const sending = fetch(`${otpd.url}/v1/otp/send`, { method: "POST", headers, body: '{"phone":"+31612345678"}' });
  await called;
  const began = process.hrtime.bigint();
  const ended = otpd.end();
  await Promise.all(watches.map((each) => each.ended));
  expect(watches.map(({ statuses }) => statuses)).toEqual(statusesOfStop);
  expect((await sending).status).toBe(200);
  provider.closeAllConnections();
  provider.close();
  expect(await ended).toBe(0);
  expect(Number(process.hrtime.bigint() - began) / 1e6).toBeLessThan(10_000);
  rmSync(folder, { recursive: true, force: true });
});
