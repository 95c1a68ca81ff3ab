/**
 * Who is let in to what operators ask, by the connection's other end. On real sockets a test is always this machine, so
 * the other end is told to the visit here. By which name a caller asks is told on real sockets too.
 */
import { rmSync } from "node:fs";
import { connect } from "node:http2";
import { once } from "node:events";
import { hostname } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createOperations } from "../../src/server/pages/operations.ts";
import { createOwnNames } from "../../src/server/http/own-names.ts";
import { startOtpd, type Otpd } from "../support/processes/process.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { temporaryFolder } from "../support/service/world.ts";

let rendered = 0;
let nowMs = 0;
const readerFor = (access: "loopback" | "on") => {
  const render = async () => ({ type: "text/plain", body: `${(rendered += 1)}` });
  const isOwnName = createOwnNames(["otp.internal"]);
  const page = createOperations({
    metrics: { access, render },
    judge: async () => ({}),
    isOwnName,
    now: () => nowMs,
  }).get("/metrics");
  if (page === undefined) throw new Error("there are no metrics");
  return async (peer: string | undefined, more: Record<string, string> = {}) => {
    const headers = { host: "localhost:8080", ...more };
    const answer = await page.answer({ method: "GET", target: "/metrics", headers, body: new Uint8Array(), peer });
    return answer.ok ? Number(answer.value.body) : answer.refusal.reason;
  };
};

const others = ["192.0.2.7", "10.0.0.1", "::ffff:192.0.2.7", "2001:db8::1", "::", "128.0.0.1", undefined];
const own = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"];

test.each(others)("on loopback, %s finds nothing there, whatever it says", async (peer) => {
  const read = readerFor("loopback");
  expect(await read(peer)).toBe("ROUTE_NOT_FOUND");
  for (const name of ["x-forwarded-for", "x-real-ip", "forwarded"]) {
    expect(await read(peer, { [name]: name === "forwarded" ? "for=127.0.0.1" : "127.0.0.1" })).toBe("ROUTE_NOT_FOUND");
  }
});

test.each(own)("on loopback, %s reads them", async (peer) => {
  expect(await readerFor("loopback")(peer)).toBeTypeOf("number");
});

const ownNames = [
  "localhost",
  "LOCALHOST:8080",
  "localhost.",
  "127.0.0.1",
  "127.8.9.10:65535",
  "[::1]",
  "[::1]:8080",
  "[0:0:0:0:0:0:0:1]",
  "otp.internal",
  "OTP.internal:80",
];
const foreignNames = [
  "evil.example",
  "evil.example:8080",
  "localhost.evil.example",
  "127.0.0.1.evil.example",
  "localhost:8080.evil.example",
  "evil.example:80:localhost",
  "user@localhost",
  "localhost, evil.example",
  "192.0.2.7",
  "128.0.0.1",
  "127.1",
  "0x7f000001",
  "2130706433",
  "[::2]",
  "::1",
  "[localhost",
  "[127.0.0.1]x",
  "",
];

test.each(ownNames)("on loopback, this machine reads them as %j", async (host) => {
  expect(await readerFor("loopback")("127.0.0.1", { host })).toBeTypeOf("number");
});

test.each(foreignNames)("on loopback, not even this machine finds them as %j", async (host) => {
  expect(await readerFor("loopback")("127.0.0.1", { host })).toBe("ROUTE_NOT_FOUND");
});

test("when they are on, names do not matter", async () => {
  for (const host of [...ownNames, ...foreignNames]) {
    expect(await readerFor("on")("127.0.0.1", { host })).toBeTypeOf("number");
  }
});

test("when they are on, everybody reads them; strangers get what is up to a second old", async () => {
  const read = readerFor("on");
  rendered = 0;
  nowMs = 10_000;
  expect(await Promise.all(Array.from({ length: 100 }, () => read("192.0.2.7")))).toEqual(Array(100).fill(1));
  nowMs += 999;
  expect(await read("2001:db8::1")).toBe(1);
  expect(await read("127.0.0.1")).toBe(2);
  expect(await read("127.0.0.1")).toBe(3);
  nowMs += 1;
  expect(await read("192.0.2.7")).toBe(4);
});

test("this machine gets eight fresh ones a second, and what is up to a second old beyond that", async () => {
  const read = readerFor("on");
  rendered = 0;
  nowMs = 20_000;
  const seen = [];
  for (let i = 0; i < 12; i += 1) seen.push(await read("127.0.0.1"));
  expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9]);
  nowMs += 1_000;
  expect(await read("127.0.0.1")).toBe(10);
});

test("without metrics there is no such path", () => {
  expect(
    createOperations({ metrics: undefined, judge: async () => ({}), isOwnName: () => true, now: () => 0 }).get(
      "/metrics",
    ),
  ).toBeUndefined();
});

describe("a running service", () => {
  const folder = temporaryFolder();
  let otpd: Otpd;
  beforeAll(async () => {
    otpd = await startOtpd(folder);
  });
  afterAll(async () => {
    await otpd.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const ask = (headers: Record<string, string>) => overHttp1(otpd.url, { method: "GET", path: "/metrics", headers });

  test("shows its metrics to nobody who calls this machine by a foreign name", async () => {
    const lost = await overHttp1(otpd.url, { method: "GET", path: "/nowhere" });
    for (const host of ["evil.example", `evil.example:${new URL(otpd.url).port}`, "localhost.evil.example"]) {
      const refused = await ask({ host });
      expect([refused.status, refused.text]).toEqual([404, lost.text]);
    }
    for (const host of ["localhost", new URL(otpd.url).host, hostname()])
      expect((await ask({ host })).status).toBe(200);
  });

  test("nor on HTTP/2, where :authority is what counts", async () => {
    const session = connect(otpd.url);
    const statusOf = async (headers: Record<string, string>) => {
      const stream = session.request({ ":path": "/metrics", ...headers });
      stream.resume();
      const [head] = (await once(stream, "response")) as [Record<string, number>];
      await once(stream, "close");
      return head[":status"];
    };
    expect(await statusOf({ ":authority": "evil.example" })).toBe(404);
    expect(await statusOf({ ":authority": "evil.example", host: "localhost" })).toBe(404);
    expect(await statusOf({ ":authority": "localhost" })).toBe(200);
    session.close();
  });
});
