/** Nothing stays of sessions over HTTP/2 and our own TLS whose client leaves while something is written to it. */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { connect } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { flag, frame, frameType, headerBlock, preface, settings } from "../support/clients/raw.ts";
import { lacks } from "../support/machine.ts";
import { writeCertificate } from "../support/network/certificate.ts";
import { collecting, heldMiB, startOtpd, type Otpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

const sessions = 600;
const atOnce = 10;
/** 600 left some 5 before. */
const leftMiBMax = 2;

const watch = headerBlock({
  ":method": "POST",
  ":scheme": "https",
  ":path": "/grpc.health.v1.Health/Watch",
  ":authority": "otpd",
  "content-type": "application/grpc",
  te: "trailers",
});
const opening = Buffer.concat([
  Buffer.from(preface),
  settings(),
  frame(frameType.headers, flag.endHeaders, 1, watch),
  frame(frameType.data, flag.endStream, 1, Buffer.alloc(5)),
]);

describe.skipIf(lacks("sessions that are left", "openssl"))("with a certificate", () => {
  const folder = temporaryFolder();
  let otpd: Otpd;
  beforeAll(async () => {
    otpd = await startOtpd(folder, { ...writeCertificate(folder, "left-sessions"), ...collecting });
  });
  afterAll(async () => {
    await otpd.end();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Watches, and leaves once it is answered; every second one in the middle. */
  async function beOne(isPatient: boolean): Promise<void> {
    const port = Number(new URL(otpd.url).port);
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    const closed = once(socket, "close");
    await once(socket, "secureConnect");
    socket.write(opening);
    if (isPatient) await once(socket, "data");
    socket.destroy();
    await closed;
  }

  async function leave(count: number): Promise<number> {
    for (let done = 0; done < count; done += atOnce)
      await Promise.all(Array.from({ length: atOnce }, (_, i) => beOne(i % 2 === 0)));
    return heldMiB(otpd);
  }

  test("those who leave in the middle of a watch leave nothing behind", async () => {
    const before = await leave(sessions / 2);
    await leave(sessions);
    // The server hears of the last ones a little later.
    await expect.poll(async () => (await heldMiB(otpd)) - before, { interval: 200 }).toBeLessThan(leftMiBMax);
  });
});
