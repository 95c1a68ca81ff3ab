/**
 * First messages of TLS with names of authorities, each of which OpenSSL would keep with the connection as an object: 770 KB of
 * a message of 16 KB. A few are taken, as of clients that send them. They are looked at however they are cut.
 */
import { once } from "node:events";
import { connect, type AddressInfo } from "node:net";
import { connect as connectTls, createServer } from "node:tls";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCertificateInUse } from "../../src/server/listener/certificate.ts";
import { ClientHellos } from "../../src/server/listener/client-hello.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import {
  authorities,
  firstMessage,
  inRecords,
  messageOf,
  statusBy,
  withExtension,
} from "../support/network/client-hello.ts";
import { startListener, type Listener } from "../support/service/listener.ts";

const [byStatus, byAuthority] = [5, 47];

let plain: Buffer;
beforeAll(async () => {
  plain = messageOf(await firstMessage());
});

const taken = (pieces: readonly Buffer[]) => {
  const hellos = new ClientHellos();
  return pieces.map((piece) => hellos.take(piece));
};
const cut = (messages: Buffer, bytes: number) =>
  Array.from({ length: Math.ceil(messages.length / bytes) }, (_, i) => messages.subarray(i * bytes, (i + 1) * bytes));

describe.each([1, 7, 300, 16_384])("in pieces of %i bytes", (bytes) => {
  test.each([
    ["a real client's", () => plain],
    ["with 63 names", () => withExtension(plain, byAuthority, authorities(63))],
    ["with a plain request for status", () => withExtension(plain, byStatus, statusBy(0))],
    ["with much else", () => withExtension(plain, 21, Buffer.alloc(2_000))],
    ["that breaks off", () => Buffer.concat([Buffer.from([1, 0, 0, 36]), plain.subarray(4, 40)])],
    ["behind others", () => Buffer.concat([Buffer.from([0, 0, 0, 0, 16, 0, 0, 2, 1, 1]), plain])],
  ])("%s is taken", (_, message) => {
    expect(taken(cut(message(), bytes))).not.toContain(false);
  });

  test.each([
    ["with 64 names", () => withExtension(plain, byAuthority, authorities(64))],
    ["with a request for status by 42 names", () => withExtension(plain, byStatus, statusBy(42))],
    [
      "with names behind much else",
      () => withExtension(withExtension(plain, 21, Buffer.alloc(2_000)), byAuthority, authorities(1_000)),
    ],
    ["with names, the second time", () => Buffer.concat([plain, withExtension(plain, byAuthority, authorities(64))])],
  ])("%s is refused, at its last byte", (_, message) => {
    const answers = taken(cut(message(), bytes));
    expect(answers.indexOf(false)).toBe(answers.length - 1);
  });
});

test("a message that comes a byte at a time takes what it has, and not something for each byte", () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as NodeJS.GCFunction;
  const readers = Array.from({ length: 50 }, () => new ClientHellos());
  const begun = Buffer.concat([Buffer.from([1, 0, 0x1f, 0xf0]), Buffer.alloc(4_000)]);
  const used = () => {
    gc();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  for (const reader of readers) for (const byte of begun) reader.take(Buffer.from([byte]));
  const kept = (used() - before) / readers.length;
  expect(readers.map((reader) => reader.take(Buffer.alloc(1)))).not.toContain(false);
  expect(kept).toBeLessThan(100_000);
});

describe.skipIf(lacks("first messages of TLS", "openssl"))("with a certificate", () => {
  let listener: Listener;
  beforeAll(async () => {
    listener = await startListener({ readCertificate: () => makeCertificate("hello") });
  });
  afterAll(() => listener.stop(0));

  /** What a client is answered first: a type of record, or nothing. */
  async function firstAnswer(bytes: Buffer): Promise<number | undefined> {
    const socket = connect({ port: listener.port, host: "127.0.0.1" });
    const first = await new Promise<number | undefined>((answered) => {
      socket.on("error", () => {}).once("close", () => answered(undefined));
      socket.once("data", (data) => answered(data[0]));
      socket.write(bytes);
    });
    socket.destroy();
    return first;
  }

  test.each([300, 16_384])("names are answered with nothing at all, in records of %i bytes", async (bytes) => {
    const hello = 22;
    const few = withExtension(plain, byAuthority, authorities(63));
    expect(await firstAnswer(inRecords(plain, bytes))).toBe(hello);
    expect(await firstAnswer(inRecords(few, bytes))).toBe(hello);
    expect(await firstAnswer(inRecords(withExtension(plain, byAuthority, authorities(64)), bytes))).toBeUndefined();
    expect(await firstAnswer(inRecords(withExtension(plain, byStatus, statusBy(42)), bytes))).toBeUndefined();
  });

  test("another one within a connection is refused by TLS itself: it is encrypted, so nobody sees it before", async () => {
    const tls = createServer(createCertificateInUse(() => makeCertificate("hello")).read()).listen(0, "127.0.0.1");
    await once(tls, "listening");
    const { port } = tls.address() as AddressInfo;
    const socket = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false, maxVersion: "TLSv1.2" });
    await once(socket, "secureConnect");
    const refusal = await new Promise((done) => {
      socket.once("error", done).renegotiate({}, () => done("it was made"));
    });
    expect(String(refusal)).toContain("no renegotiation");
    socket.destroy();
    tls.close();
  });

  test("a first message as of SSL 2 is answered with nothing at all", async () => {
    const old = Buffer.from([1, 3, 3, 0, 3, 0, 0, 0, 16, 0, 0, 0x2f, ...Array.from({ length: 16 }, (_, i) => i)]);
    expect(await firstAnswer(Buffer.concat([Buffer.from([0x80, old.length]), old]))).toBeUndefined();
  });
});
