/**
 * No address keeps others out of the real process: neither by holding all connections there are, in whatever way, nor many
 * callers behind one address by coming back at once.
 */
import { rmSync, writeFileSync } from "node:fs";
import { Agent } from "node:http";
import { join } from "node:path";
import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { writeCertificate } from "../support/network/certificate.ts";
import { firstKey, startOtpd, type Otpd } from "../support/processes/process.ts";
import { openRaw, preface, settings, type RawConnection } from "../support/clients/raw.ts";
import { headersFrame, hello, hold, livezText, watchFrames, whenAnswered } from "../support/clients/strangers.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { extent, sampled } from "../support/extent.ts";

const stranger = "127.0.0.2";
let folder: string;
let otpd: Otpd;
let key: string;
let held: RawConnection[];
beforeEach(() => {
  folder = temporaryFolder();
  held = [];
});
afterEach(async () => {
  for (const connection of held) connection.destroy();
  await otpd.end();
  rmSync(folder, { recursive: true, force: true });
});

const portOf = () => Number(new URL(otpd.url).port);
const start = async (env: Record<string, string>, node = process.execPath) => {
  otpd = await startOtpd(folder, env, ["serve"], { node });
  key = await firstKey(otpd);
};

const holdMore = async (from: string, count: number, ...first: readonly (string | Uint8Array)[]) => {
  // Each writes once it is open: one that is silent for 5 s may have to make room.
  const one = () => hold(portOf(), from, 1, ...first);
  const more = (await Promise.all(Array.from({ length: count }, one))).flat();
  held.push(...more);
  return more;
};

/** An honest call; 404 is the answer to it. */
async function call(from: string, agent?: Agent): Promise<number> {
  const headers = { authorization: `Bearer ${key}` };
  const path = `/v1/otp/${"A".repeat(22)}`;
  const more = agent === undefined ? {} : { agent };
  return (await overHttp1(otpd.url, { method: "GET", path, headers, from, ...more })).status;
}

/** Everybody who has no share in this is served, on a connection of his own. */
async function expectServed(): Promise<void> {
  for (let i = 0; i < 5; i += 1) {
    for (const path of ["/livez", "/readyz"]) {
      expect((await overHttp1(otpd.url, { method: "GET", path, from: "127.0.0.1" })).status).toBe(200);
    }
    expect(await call("127.0.0.3")).toBe(404);
  }
}

describe("300 of 300 connections, held by one address", () => {
  const unread = [preface, settings([4, 0]), headersFrame("GET", "/livez", "", true)];
  const rows: [how: string, first: readonly (string | Uint8Array)[], answers: boolean][] = [
    ["by a GET a minute", [livezText], true],
    ["by a GET a minute on HTTP/2", [...hello, headersFrame("GET", "/livez", "", true)], true],
    ["in silence", [], false],
    ["by half a header", ["GET /livez HTTP/1.1\r\nx-half: "], false],
    ["by a hello on HTTP/2", hello, true],
    ["by half a body", ["POST /v1/otp/send HTTP/1.1\r\nhost: otpd\r\ncontent-length: 9\r\n\r\n{"], false],
    [
      "by a health check without end",
      [...hello, headersFrame("POST", "/grpc.health.v1.Health/Check", "application/grpc")],
      true,
    ],
    [
      "by a question without end",
      [...hello, headersFrame("POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "application/grpc")],
      true,
    ],
    ["by answers that are not taken", unread, true],
    ["by health watches", [...hello, watchFrames], true],
  ];
  test.each(sampled(rows, 3))("%s, keep out neither a newcomer nor a probe", async (_, first, answers) => {
    await start({ OTP_MAX_CONNECTIONS: "300" });
    const all = await holdMore(stranger, 300, ...first);
    if (answers) await whenAnswered(all);
    await expectServed();
    // The stranger comes again, with as many, and asks again wherever it still can.
    for (const connection of all) connection.write(...(first === rows[0]?.[1] ? first : []));
    await holdMore(stranger, 300, ...first);
    await expectServed();
  });
});

test.each([
  ["", { OTP_ADMIN: "off" }, 300],
  [", operators' too", { OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" }, 250],
])(
  "where files end before connections do%s, an address that opens all there are keeps nobody out",
  async (...given) => {
    const [, settingsOf, connections] = given;
    const node = join(folder, "node-with-few-files");
    writeFileSync(node, `#!/bin/sh\nulimit -n 400\nexec "${process.execPath}" "$@"\n`, { mode: 0o755 });
    await start(settingsOf, node);
    await otpd.waitFor(
      new RegExp(`OTP_MAX_CONNECTIONS is 10000, but .* may open so few files .* takes ${connections} connections`),
      "errors",
    );
    await holdMore(stranger, 500, livezText);
    if (settingsOf.OTP_ADMIN !== "off") {
      const [, operators] = await otpd.waitFor(/http:\S+:(\d+)\/console#token=/);
      held.push(...(await hold(Number(operators), stranger, 256)));
    }
    await expectServed();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const sent = await overHttp1(otpd.url, { path: "/v1/otp/send", headers, body: '{"phone":"+31612345678"}' });
    expect(sent.status).toBe(200);
  },
);

test.skipIf(lacks("memory that connections over TLS have room in", "openssl")).each([
  ["3,072 in cleartext", () => ({}), "3072"],
  ["1,316 over TLS", () => writeCertificate(folder, "first"), "1316"],
])("512 MiB have room for %s", async (_, settingsFor, connections) => {
  const node = join(folder, "node-with-little-memory");
  const preload = join(folder, "little-memory.mjs");
  writeFileSync(preload, "process.constrainedMemory = () => 512 * 1_048_576;");
  writeFileSync(node, `#!/bin/sh\nexec "${process.execPath}" --import "${preload}" "$@"\n`, { mode: 0o755 });
  await start(settingsFor(), node);
  await otpd.end();
  const [, taken] = /may take so little memory that it takes (\d+) connections/.exec(otpd.errors()) ?? [];
  expect(taken).toBe(connections);
});

test("200 callers behind one address come back at once, while another holds all the rest", async () => {
  await start({ OTP_MAX_CONNECTIONS: "900" });
  for (let round = 0; round < extent(1, 3); round += 1) {
    await holdMore(stranger, 900, livezText);
    const agents = Array.from({ length: 200 }, () => new Agent({ keepAlive: true }));
    // The second call is on the connection of the first: nobody has closed it.
    for (let i = 0; i < 2; i += 1) {
      const statuses = await Promise.all(agents.map((agent) => call("127.0.0.3", agent)));
      expect(new Set(statuses)).toEqual(new Set([404]));
    }
    for (const agent of agents) agent.destroy();
    for (const connection of held.splice(0)) connection.destroy();
  }
});

test("an address of OTP_SHARED_NETWORKS or OTP_TRUSTED_PROXIES keeps all it has, and another gives", async () => {
  await start({
    OTP_MAX_CONNECTIONS: "100",
    OTP_SHARED_NETWORKS: "127.0.0.4, 127.0.1.0/24",
    OTP_TRUSTED_PROXIES: "127.0.2.0/24",
  });
  const shared = [
    ...(await holdMore("127.0.0.4", 20, livezText)),
    ...(await holdMore("127.0.1.9", 30, livezText)),
    ...(await holdMore("127.0.2.9", 30, livezText)),
  ];
  await whenAnswered(shared);
  // Nobody promises in which order those are answered who come together: this one has been idle for longest.
  const strangers = await holdMore(stranger, 1, livezText);
  await whenAnswered(strangers);
  await holdMore(stranger, 19, livezText);
  const gone: string[] = [];
  for (const each of shared) void each.closed.then(() => gone.push("shared"));
  // As many as there are strangers: every one of them goes.
  for (let i = 0; i < 10; i += 1) await holdMore("127.0.0.3", 2, livezText);
  await strangers[0]?.closed;
  await expectServed();
  for (const each of shared) each.write(livezText);
  await Promise.all(
    shared.map((each) => each.until((bytes) => (bytes.toString().split("HTTP/1.1 200").length > 2 ? true : undefined))),
  );
  expect(gone).toEqual([]);
});

test("whoever holds every connection from OTP_SHARED_NETWORKS keeps nobody out, within it or outside", async () => {
  await start({ OTP_MAX_CONNECTIONS: "50", OTP_SHARED_NETWORKS: "127.0.1.0/24" });
  await whenAnswered(await holdMore("127.0.1.9", 50, livezText));
  await expectServed();
  for (const from of ["127.0.1.7", "127.0.0.3"]) expect(await call(from)).toBe(404);
});

test("headers from OTP_SHARED_NETWORKS are not believed", async () => {
  await start({ OTP_SHARED_NETWORKS: "127.0.0.0/8", OTP_AUTH_FAILURE_LIMIT: "5@1h" });
  const statuses: number[] = [];
  for (let i = 0; i < 6; i += 1) {
    const headers = { authorization: "Bearer wrong", "x-forwarded-for": `192.0.2.${i}` };
    statuses.push((await overHttp1(otpd.url, { method: "GET", path: `/v1/otp/${"A".repeat(22)}`, headers })).status);
  }
  expect(statuses).toEqual([401, 401, 401, 401, 401, 429]);
});

const lacksOpenssl = lacks("handshakes that are never ended", "openssl");
test.skipIf(lacksOpenssl)("handshakes that are never ended count as connections, and make room like them", async () => {
  await start({ OTP_MAX_CONNECTIONS: "100", ...writeCertificate(folder, "first") });
  const handshakes = await holdMore(stranger, 100, Buffer.from([22, 3, 1, 2, 0]));
  let closed = 0;
  const some = new Promise<void>((resolve) => {
    for (const each of handshakes) {
      void each.closed.then(() => {
        closed += 1;
        if (closed === 10) resolve();
      });
    }
  });
  for (let i = 0; i < 10; i += 1) {
    const socket = connectTcp({ port: portOf(), host: "127.0.0.1", localAddress: "127.0.0.3" });
    const secure = connectTls({ socket, rejectUnauthorized: false });
    await once(secure, "secureConnect");
    const caller = await openRaw(portOf(), secure);
    held.push(caller);
    caller.write(livezText);
    expect(await caller.until((bytes) => /^HTTP\/1\.1 (\d+)/.exec(bytes.toString())?.[1])).toBe("200");
  }
  await some;
});
