/**
 * Requests that never become a call: the client gets an id and the log has it too, with what was wrong and nothing that is
 * secret; what is no HTTP at all gets a body that a client can read.
 */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTurnedAwayLog, maskedPath, type TurnedAway } from "../../src/observe/turned-away.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { startListener, type Listener } from "../support/service/listener.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";
import { openRaw } from "../support/clients/raw.ts";
import { createManualSystem } from "../support/service/system.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

const wires = [
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
] as const;
const json = { "content-type": "application/json" };
const page = { origin: "https://shop.example", "access-control-request-method": "POST" };

describe.each(wires)("over %s", (_, wire) => {
  test.each([
    ["ROUTE_NOT_FOUND", 404, "POST", "/v1/otp/sned?phone=%2B31612345678", json, "/v1/otp/sned"],
    ["METHOD_NOT_ALLOWED", 405, "GET", "/v1/otp/send", {}, "/v1/otp/send"],
    ["METHOD_NOT_ALLOWED", 405, "POST", "/livez", {}, "/livez"],
    [
      "BODY_TOO_LARGE",
      413,
      "POST",
      "/v1/otp/send",
      { ...json, "content-length": "16385" },
      "/v1/otp/send",
      "x".repeat(16_385),
    ],
    ["MEDIA_TYPE_UNSUPPORTED", 415, "POST", "/v1/otp/send", { "content-type": "text/xml" }, "/v1/otp/send", "<a/>"],
    ["ORIGIN_NOT_ALLOWED", 403, "OPTIONS", "/v1/otp/send", page, "/v1/otp/send"],
    ["INVALID_REQUEST", 417, "POST", "/v1/otp/send", { ...json, expect: "a-miracle" }, "/v1/otp/send", "{}"],
  ])("%s (%i) of %s %s is told of under the id of its answer", async (...row) => {
    const [reason, status, method, path, headers, logged, body] = row;
    world.observed.splice(0);
    const answer = await wire(world.url, { method, path, headers, ...(body === undefined ? {} : { body }) });
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.text)).toMatchObject({ reason, message: expect.any(String) as string, details: [{}, {}] });
    expect(answer.headers.get("content-length")).toBe(`${Buffer.byteLength(answer.text)}`);
    const id = answer.headers.get("x-call-id");
    expect(id).toMatch(/^[\w-]{12}$/);
    const { origin } = { origin: undefined, ...headers };
    const line = { id, reason, status, method, path: logged, ...(origin === undefined ? {} : { origin }) };
    expect(world.observed).toEqual([{ event: "turnedAway", with: [line] }]);
    world.system.advance(1_000);
  });

  test.each(["100-continue", "100-Continue", "100-CONTINUE"])("what expects %s is served", async (expect_) => {
    const answer = await wire(world.url, { method: "GET", path: "/livez", headers: { expect: expect_ } });
    expect(answer.status).toBe(200);
  });
});

test.each([
  ["/v1/otp/sned", "/v1/otp/sned"],
  ["/otp.v1.OtpService/Send", "/otp.v1.OtpService/Send"],
  ["/v1/phone-verifications-of-mine", "/v1/phone-verifications-of-mine"],
  ["/v1/otp/send/+31612345678", "/v1/otp/send/+•••••••••••"],
  ["/v1/otp/send/%2B31%206-12", "/v1/otp/send/%•B••%•••-••"],
  ["/v1/otp/verify/123456", "/v1/otp/verify/••••••"],
  ["/otp/PVbixdb1JTmKFXAZ6M9x4w/x", "/otp/…/x"],
  ["/otp_live_a6SNiTWnRd_Oc4UnJtEBO9p7HwI4Q5JOl8H5hI2Gk2V12s2Zf", "/…"],
  ["/v12/v1.5/v1x/", "/v••/v1.•/v•x/"],
  ["/a\u001b[31m\u0085é", "/a?[••m??"],
  [`/${"é/".repeat(500)}`, `/${"?/".repeat(99)}?`],
])("of the path %j the log has %j", (path, masked) => {
  expect(maskedPath(path)).toBe(masked);
});

test.each([
  ["https://shop.example", "https://shop.example"],
  ["http://192.168.1.10:5173", "http://192.168.1.10:5173"],
  ["http://[::1]:3000", "http://[::1]:3000"],
  ["capacitor://localhost", "capacitor://localhost"],
  ["null", "null"],
  ["https://31687654321", "https://•••••••••••"],
  ["https://otp_live_0123456789ABCDEFGHIJKLMN/+31687654321", "https://…/+•••••••••••"],
])("of the origin %s the log has %s", (origin, masked) => {
  const lines: TurnedAway[] = [];
  const log = createTurnedAwayLog({
    system: createManualSystem(),
    write: (line) => lines.push(line),
    writeRest: () => {},
  });
  log.add({ id: "id", reason: "ORIGIN_NOT_ALLOWED", status: 403, method: "GET", path: "/", origin });
  expect(lines.map((line) => line.origin)).toEqual([masked]);
});

test("of many within a second ten are told of, and of the rest how many there were", () => {
  const system = createManualSystem();
  const due: (() => void)[] = [];
  const lines: (string | number)[] = [];
  const log = createTurnedAwayLog({
    system: {
      ...system,
      after(ms, act) {
        expect(ms).toBe(600);
        due.push(act);
        return () => void due.splice(0);
      },
    },
    write: ({ id }) => lines.push(id),
    writeRest: (count) => lines.push(count),
  });
  const tell = (id: string) =>
    log.add({ id, reason: "ROUTE_NOT_FOUND", status: 404, method: "GET", path: "/" } satisfies TurnedAway);
  const burst = (name: string, count: number) => Array.from({ length: count }, () => tell(name));
  burst("a", 4);
  system.advance(400);
  burst("b", 21);
  expect(lines).toEqual([..."aaaabbbbbb"]);
  // Nobody else has to come for it.
  expect(due).toHaveLength(1);
  system.advance(600);
  due[0]?.();
  expect(lines.splice(0)).toEqual([..."aaaabbbbbb", 15]);
  burst("c", 10);
  expect(lines.splice(0)).toEqual([..."cccccccccc"]);
  system.advance(400);
  burst("c", 2);
  system.advance(700);
  tell("d");
  expect(lines.splice(0)).toEqual([2, "d"]);
  log.end();
  expect([lines, due]).toEqual([[], []]);
});

test("calls without a valid key share these lines, and others have as many as there are", async () => {
  world.system.advance(1_000);
  world.observed.splice(0);
  const ask = (authorization: string) => fetch(`${world.url}/v1/otp/${"A".repeat(22)}`, { headers: { authorization } });
  for (let i = 0; i < 4; i += 1) await fetch(`${world.url}/nowhere`);
  for (let i = 0; i < 12; i += 1) await ask(["", "Bearer wrong"][i % 2] ?? "");
  for (let i = 0; i < 12; i += 1) await ask(`Bearer ${world.key}`);
  const events = world.observed.map(({ event, with: [call] }) => [
    event,
    (call as { caller?: unknown }).caller !== undefined,
  ]);
  const count = (event: string, hasKey: boolean) => events.filter(([is, has]) => is === event && has === hasKey).length;
  expect([count("turnedAway", false), count("call", false), count("call", true)]).toEqual([4, 6, 12]);
  world.system.advance(1_000);
  await fetch(`${world.url}/nowhere`);
  expect(world.observed.find(({ event }) => event === "turnedAwayRest")).toMatchObject({ with: [6] });
});

test("so do those of a page's key that were not let in, beyond its address's limit or from elsewhere", async () => {
  world.system.advance(60_000);
  world.observed.splice(0);
  const shop = "https://shop.example";
  const { text } = await world.makeKey({ kind: "pub", origins: [shop] });
  const ask = async (origin: string) => {
    const headers = { authorization: `Bearer ${text}`, origin };
    const answer = await fetch(`${world.url}/v1/otp/${"A".repeat(22)}`, { headers });
    return ((await answer.json()) as { reason: string }).reason;
  };
  const limit = 60;
  for (let i = 0; i < limit; i += 1) expect(await ask(shop)).toBe("REQUEST_NOT_FOUND");
  for (let i = 0; i < 8; i += 1) expect(await ask(shop)).toBe("IP_RATE_LIMITED");
  for (let i = 0; i < 8; i += 1) expect(await ask("https://evil.example")).toBe("ORIGIN_NOT_ALLOWED");
  expect(world.observed.filter(({ event }) => event === "call")).toHaveLength(limit + 10);
});

test("the real log has a line for each, without what is secret, and the rest at a stop", async () => {
  const folder = temporaryFolder();
  const otpd = await startOtpd(folder);
  const key = await firstKey(otpd);
  const secrets = ["31612345678", "123456", key];
  for (const secret of secrets) await fetch(`${otpd.url}/v1/otp/${secret}/x?code=987654`);
  const raw = await openRaw(Number(new URL(otpd.url).port));
  raw.write(`POST /v1/otp/verify HTTP/1.1\r\nauthorization: Bearer ${key}\r\n31612345678 123456\r\n\r\n`);
  expect((await raw.closed).toString()).toMatch(/^HTTP\/1.1 400 Bad Request\r\nx-call-id: [\w-]{12}\r\n/);
  await Promise.all(Array.from({ length: 60 }, () => fetch(`${otpd.url}/sorry`)));
  await otpd.end();
  rmSync(folder, { recursive: true });
  const lines = otpd
    .errors()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { level: number; msg: string; path: string; count: number });
  const logged = lines.filter(({ msg }) => msg === "turned away");
  expect(logged[0]).toMatchObject({ level: 30, reason: "ROUTE_NOT_FOUND", status: 404, method: "GET" });
  expect(logged.slice(0, 5).map(({ path }) => path)).toEqual([
    "/v1/otp/•••••••••••/x",
    "/v1/otp/••••••/x",
    "/v1/otp/…/x",
    "?",
    "/sorry",
  ]);
  const counted = lines.filter(({ msg }) => msg === "more were turned away, and are not listed");
  expect(logged.length + counted.reduce((sum, { count }) => sum + count, 0)).toBe(64);
  expect(secrets.concat("987654").filter((secret) => otpd.errors().includes(secret))).toEqual([]);
});

/** Where the first line is not believed. */
const noLine = { method: "?", path: "?" };
const lacksOpenssl = lacks("TLS", "openssl");
const secured = lacksOpenssl ? {} : { readCertificate: () => certificate };
const certificate = lacksOpenssl ? { cert: "", key: "" } : makeCertificate("otpd");

describe.each([
  ["cleartext", false, {}],
  ["TLS", lacksOpenssl, secured],
])("over %s what is no request that could be served", (name, lacksTool, how) => {
  const seen: TurnedAway[] = [];
  let listener: Listener;
  beforeAll(async () => {
    listener = await startListener({
      // What is answered 408 waits for as long; and on a slow machine a TLS handshake takes its time.
      limits: { requestMs: 3_000 },
      onTurnedAway: (request) => seen.push(request),
      ...how,
    });
  });
  afterAll(() => listener.stop());
  const open = async () => {
    if (name === "cleartext") return openRaw(listener.port);
    const socket = connectTls({ port: listener.port, host: "127.0.0.1", rejectUnauthorized: false });
    await once(socket, "secureConnect");
    return openRaw(listener.port, socket);
  };

  test.skipIf(lacksTool).each([
    ["400 Bad Request", "INVALID_REQUEST", "GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n"],
    ["400 Bad Request", "INVALID_REQUEST", "what is this?\r\n\r\n"],
    ["431 Request Header Fields Too Large", "INVALID_REQUEST", `GET / HTTP/1.1\r\nx: ${"x".repeat(20_000)}\r\n\r\n`],
    [
      "431 Request Header Fields Too Large",
      "INVALID_REQUEST",
      `GET /livez HTTP/1.1\r\nhost: x\r\n${"x:\r\n".repeat(100)}\r\n`,
      { method: "GET", path: "/livez" },
    ],
    ["408 Request Timeout", "DEADLINE", "GET / HTTP/1.1\r\nhost: x"],
    ["400 Bad Request", "INVALID_REQUEST", "GET /livez HTTP/1.1\r\n\r\n", { method: "GET", path: "/livez" }],
    [
      "400 Bad Request",
      "INVALID_REQUEST",
      "POST /v1/otp/send HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
      { method: "POST", path: "/v1/otp/send" },
    ],
    ["405 Method Not Allowed", "METHOD_NOT_ALLOWED", "CONNECT otpd:443 HTTP/1.1\r\nhost: otpd\r\n\r\nhello"],
    ["405 Method Not Allowed", "METHOD_NOT_ALLOWED", "CONNECT otpd:443 HTTP/1.1\r\nhost: otpd\r\n\r\n".repeat(9)],
  ])("is answered %s (%s) with a body like that of every refusal", async (status, reason, bytes, told = noLine) => {
    seen.splice(0);
    const raw = await open();
    raw.write(bytes);
    const [head = "", body = ""] = (await raw.closed).toString().split("\r\n\r\n");
    const headers = new Map(head.split("\r\n").map((line) => line.split(": ") as [string, string]));
    expect(head).toContain(`HTTP/1.1 ${status}\r\n`);
    expect([headers.get("content-type"), headers.get("connection")]).toEqual(["application/json", "close"]);
    expect(headers.get("content-length")).toBe(`${Buffer.byteLength(body)}`);
    expect(headers.get("allow")).toBe(status.startsWith("405") ? "GET, HEAD, POST" : undefined);
    const code = reason === "DEADLINE" ? "deadline_exceeded" : "invalid_argument";
    expect(JSON.parse(body)).toMatchObject({ code, reason, message: expect.any(String) as string, details: [{}, {}] });
    const id = headers.get("x-call-id");
    expect(id).toMatch(/^[\w-]{12}$/);
    expect(seen).toEqual([{ id, reason, status: Number(status.slice(0, 3)), ...told }]);
  });
});

test("a CONNECT over HTTP/2 is refused with a body like that of every refusal", async () => {
  // Of others' lines there may be as many as a second has.
  world.system.advance(1_000);
  world.observed.splice(0);
  const session = connect(world.url);
  const stream = session.request({ ":method": "CONNECT", ":authority": "otpd:443" });
  const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders];
  const body = (await stream.setEncoding("utf8").toArray()).join("");
  session.close();
  expect(headers).toMatchObject({ ":status": 405, allow: "GET, HEAD, POST", "content-type": "application/json" });
  expect(JSON.parse(body)).toMatchObject({ code: "invalid_argument", reason: "METHOD_NOT_ALLOWED", details: [{}, {}] });
  const line = { id: headers["x-call-id"], reason: "METHOD_NOT_ALLOWED", status: 405, method: "CONNECT", path: "" };
  expect(world.observed).toEqual([{ event: "turnedAway", with: [line] }]);
  world.system.advance(1_000);
});
