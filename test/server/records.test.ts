/**
 * Records of TLS of a byte each, which cost as much as one of 16 KiB, against the real process: a stranger who sends them is cut
 * before he has sent much, and honest callers are answered meanwhile.
 */
import { rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRecords, type RecordConnection } from "../support/clients/records.ts";
import { flag, frame, frameType, framesIn, headerBlock, preface, settings } from "../support/clients/raw.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { firstKey, runOtpd, startOtpd, type Otpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

const folder = temporaryFolder();
let otpd: Otpd;
let key: string;
let pageKey: string;

describe.skipIf(lacks("records of TLS", "openssl"))("with a certificate", () => {
  beforeAll(async () => {
    const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    const { cert, key: pem } = makeCertificate("records");
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, pem);
    otpd = await startOtpd(folder, {
      OTP_KEY_LIMIT: "none",
      OTP_TLS_CERT_FILE: certFile,
      OTP_TLS_KEY_FILE: keyFile,
    });
    key = await firstKey(otpd);
    const made = await runOtpd(folder, ["keys", "create", "--publishable", "--origin", "https://a.example", "--json"]);
    pageKey = (JSON.parse(made.output) as { key: string }).key;
  });
  afterAll(async () => {
    await otpd.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const port = () => Number(new URL(otpd.url).port);

  /** An honest call, on a connection of its own. */
  async function call(): Promise<void> {
    const agent = new Agent({ keepAlive: false });
    const headers = { authorization: `Bearer ${key}` };
    const where = { host: "127.0.0.1", port: port(), path: `/v1/otp/${"A".repeat(22)}` };
    const sending = request({ ...where, agent, headers, rejectUnauthorized: false });
    sending.end();
    const [answer] = (await once(sending, "response")) as [IncomingMessage];
    answer.resume();
    await once(answer, "end");
    expect(answer.statusCode).toBe(404);
  }

  const open = (protocol: string, maxVersion: "TLSv1.2" | "TLSv1.3" = "TLSv1.3", from?: string) =>
    openRecords(port(), { ALPNProtocols: [protocol], maxVersion }, from);

  const livez = "GET /livez HTTP/1.1\r\nhost: otpd\r\n\r\n";
  const post = (more: string) =>
    `POST /v1/otp/verify HTTP/1.1\r\nhost: otpd\r\norigin: https://a.example\r\nauthorization: Bearer ${pageKey}\r\ncontent-type: application/json\r\n${more}\r\n\r\n`;
  const headers = (stream: number, path: string, flags: number, more: Record<string, string> = {}) =>
    frame(
      frameType.headers,
      flags,
      stream,
      headerBlock({ ":method": "GET", ":scheme": "https", ":path": path, ":authority": "otpd", ...more }),
    );
  const whole = flag.endHeaders | flag.endStream;
  const times = (count: number, make: (i: number) => Uint8Array) =>
    Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));

  interface Kind {
    readonly name: string;
    readonly protocol: "http/1.1" | "h2";
    /** Some 5,000 bytes that come in records of one, and before them what comes in fewer. */
    readonly first?: () => string | Uint8Array;
    readonly bytes: () => string | Uint8Array;
  }

  const kinds: Kind[] = [
    {
      name: "a head of HTTP/1",
      protocol: "http/1.1",
      bytes: () => `GET /nowhere HTTP/1.1\r\nhost: otpd\r\nx-pad: ${"a".repeat(5_000)}\r\n\r\n`,
    },
    {
      name: "heads of HTTP/1, request after request",
      protocol: "http/1.1",
      bytes: () => `GET /nowhere HTTP/1.1\r\nhost: otpd\r\nx-pad: ${"a".repeat(1_000)}\r\n\r\n`.repeat(5),
    },
    {
      name: "a body of HTTP/1",
      protocol: "http/1.1",
      first: () => post("content-length: 5000"),
      bytes: () => " ".repeat(5_000),
    },
    {
      name: "chunks of HTTP/1",
      protocol: "http/1.1",
      first: () => post("transfer-encoding: chunked"),
      bytes: () => `${"1\r\n \r\n".repeat(830)}0\r\n\r\n`,
    },
    {
      name: "frames of HTTP/2 that mean nothing",
      protocol: "h2",
      first: () => Buffer.concat([Buffer.from(preface), settings()]),
      bytes: () => times(560, () => frame(200, 0, 0)),
    },
    {
      name: "header blocks of HTTP/2",
      protocol: "h2",
      first: () => Buffer.concat([Buffer.from(preface), settings()]),
      bytes: () => times(5, (i) => headers(2 * i + 3, "/nowhere", whole, { "x-pad": "a".repeat(1_000) })),
    },
  ];

  /** Whether the connection's last request, which asks for /livez, was answered before its end. */
  async function isServed({ raw, send }: RecordConnection, { protocol, first, bytes }: Kind): Promise<boolean> {
    if (first !== undefined) raw.write(first());
    await send(bytes());
    raw.write(protocol === "h2" ? headers(1_001, "/livez", whole) : livez);
    const answered = (got: Buffer) =>
      protocol === "h2"
        ? framesIn(got).some(({ type, stream }) => type === frameType.headers && stream === 1_001)
        : got.includes("HTTP/1.1 200");
    return raw.until((got) => (answered(got) ? true : undefined)).catch(() => false);
  }

  test.each(sampled(kinds, 2))("a stranger who sends $name in 5,000 records is cut", async (kind) => {
    for (const version of ["TLSv1.2", "TLSv1.3"] as const)
      expect(await isServed(await open(kind.protocol, version), kind)).toBe(false);
    await call();
  });

  const noise = kinds.find(({ protocol }) => protocol === "h2") as Kind;
  const small: Kind[] = [
    { name: "HTTP/1", protocol: "http/1.1", bytes: () => livez },
    { ...noise, name: "HTTP/2", bytes: () => headers(1, "/nowhere", whole, { "x-pad": "a".repeat(100) }) },
  ];

  test.each(sampled(small, 2))(
    "a stranger whose request of $name comes in some 200 records is answered",
    async (kind) => {
      expect(await isServed(await open(kind.protocol), kind)).toBe(true);
    },
  );

  test.each([
    ["HTTP/1", (of: Kind) => of.protocol === "http/1.1" && of.first === undefined],
    ["HTTP/2", (of: Kind) => of === noise],
  ] as const)("a caller with a secret key may send 5,000 records over %s", async (_, isIt) => {
    const kind = kinds.find(isIt) as Kind;
    const connection = await open(kind.protocol);
    const { raw } = connection;
    const path = `/v1/otp/${"A".repeat(22)}`;
    const authorization = `Bearer ${key}`;
    if (kind.protocol === "h2") raw.write(kind.first?.() ?? "", headers(1, path, whole, { authorization }));
    else raw.write(`GET ${path} HTTP/1.1\r\nhost: otpd\r\nauthorization: ${authorization}\r\n\r\n`);
    await raw.until((got) => (got.includes("REQUEST_NOT_FOUND") ? true : undefined));
    expect(await isServed(connection, kind.protocol === "h2" ? { ...kind, first: () => "" } : kind)).toBe(true);
  });

  test("honest calls are answered beside strangers who send nothing else, one connection after another", async () => {
    let isOver = false;
    const strangers = Array.from({ length: 8 }, async (_, i) => {
      const kind = kinds[i % kinds.length] as Kind;
      for (; !isOver;) expect(await isServed(await open(kind.protocol, "TLSv1.3", "127.0.0.2"), kind)).toBe(false);
    });
    for (let i = 0; i < 50; i += 1) await call();
    isOver = true;
    await Promise.all(strangers);
  });
});
