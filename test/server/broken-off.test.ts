/**
 * Requests that break off, at moments at which Node forgets them or ends the process.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { constants, createServer, type Http2ServerRequest } from "node:http2";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { answerAtOnce } from "../../src/server/http/body.ts";
import { flag, frame, framesIn, frameType, headerBlock, openRaw, preface, settings } from "../support/clients/raw.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { collecting, heldMiB, startOtpd, type Otpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

const requests: Http2ServerRequest[] = [];
const server = createServer((request, response) => {
  requests.push(request);
  void answerAtOnce(request, async () => void response.end("here"));
});
beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterAll(() => void server.close());

test("a stream is not told to close before its answer is taken: Node would forget it when its connection breaks off", async () => {
  const { port } = server.address() as AddressInfo;
  const { write, until, destroy } = await openRaw(port);
  const headers = headerBlock({ ":method": "GET", ":scheme": "http", ":path": "/", ":authority": "otpd" });
  // Nothing of an answer's body may be sent for now.
  write(preface, settings([4, 0]), frame(frameType.headers, flag.endHeaders, 1, headers));
  await until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.headers));
  const [stream] = requests.map((request) => request.stream);
  expect([stream?.writableEnded, stream?.writableFinished, stream?.closed]).toEqual([true, false, false]);
  write(settings([4, 65_535]));
  const reset = await until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.reset));
  expect(reset.payload.readUInt32BE(0)).toBe(constants.NGHTTP2_NO_ERROR);
  destroy();
});

test("a session is not collected in the turn in which it goes, ahead of its streams", async () => {
  const ended = spawn(process.execPath, ["test/support/processes/collected-sessions.ts"], { stdio: "ignore" });
  expect(await once(ended, "exit")).toEqual([0, null]);
});

/** It is collected often, and when it is asked to. */
const smallHeap = { NODE_OPTIONS: `${collecting.NODE_OPTIONS} --max-semi-space-size=1` };

function certificateIn(folder: string): Record<string, string> {
  const { cert, key } = makeCertificate("broken-off");
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
  return { OTP_TLS_CERT_FILE: certFile, OTP_TLS_KEY_FILE: keyFile };
}

describe.each(["cleartext", ...(lacks("requests that break off over TLS", "openssl") ? [] : ["TLS"])])(
  "in %s",
  (by) => {
    const folder = temporaryFolder();
    let otpd: Otpd;
    beforeAll(async () => {
      otpd = await startOtpd(folder, { ...smallHeap, ...(by === "TLS" ? certificateIn(folder) : {}) });
    });
    afterAll(async () => {
      await otpd.end();
      rmSync(folder, { recursive: true, force: true });
    });

    test("a client that asks whether it may go on, and takes its request back, ends that request alone", async () => {
      const port = Number(new URL(otpd.url).port);
      const secured =
        by === "TLS"
          ? connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] })
          : undefined;
      const { write, until, destroy } = await openRaw(port, secured);
      const get = { ":method": "GET", ":scheme": "http", ":path": "/livez", ":authority": "otpd" };
      const asking = headerBlock({ ...get, expect: "100-continue" });
      write(
        preface,
        settings(),
        frame(frameType.headers, flag.endHeaders, 1, asking),
        frame(frameType.reset, 0, 1, Buffer.alloc(4)),
        frame(frameType.headers, flag.endHeaders | flag.endStream, 3, headerBlock(get)),
        frame(frameType.headers, flag.endHeaders | flag.endStream, 5, asking),
      );
      const streams = await until((bytes) => {
        const ended = framesIn(bytes).filter(({ type, flags }) => type === frameType.data && flags & flag.endStream);
        return ended.length === 2 ? ended.map(({ stream }) => stream) : undefined;
      });
      expect(new Set(streams)).toEqual(new Set([3, 5]));
      destroy();
    });

    test("a client that leaves in the midst of its trailers ends its connection alone, when that is collected too", async () => {
      const port = Number(new URL(otpd.url).port);
      const post = headerBlock({ ":method": "POST", ":scheme": "http", ":path": "/livez", ":authority": "otpd" });
      const fields = Array.from({ length: 60 }, (_, i) => [`x-${i}`, "v".repeat(200)] as const);
      const trailers = frame(
        frameType.headers,
        flag.endHeaders | flag.endStream,
        1,
        headerBlock(Object.fromEntries(fields)),
      );
      const half = trailers.subarray(0, trailers.length / 2);
      const leave = async () => {
        const options = { port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] };
        const socket = by === "TLS" ? connectTls(options) : connect(options);
        const { closed } = await openRaw(port, socket);
        await once(socket, by === "TLS" ? "secureConnect" : "connect");
        socket.write(Buffer.concat([Buffer.from(preface), settings()]));
        // Its answer finds nobody.
        const head = frame(frameType.headers, flag.endHeaders, 1, post);
        socket.write(Buffer.concat([head, half]), () => socket.destroy());
        await closed;
      };
      for (let i = 0; i < 5; i += 1) {
        await Promise.all(Array.from({ length: 10 }, leave));
        expect(await heldMiB(otpd)).toBeGreaterThan(0);
      }
    });

    test("a client that asks for a tunnel, and resets its connection when it is refused, ends that connection alone", async () => {
      const port = Number(new URL(otpd.url).port);
      for (let i = 0; i < 5; i += 1) {
        const socket = connect(port, "127.0.0.1");
        const { write, until } = await openRaw(
          port,
          by === "TLS" ? connectTls({ socket, rejectUnauthorized: false }) : socket,
        );
        write("CONNECT otpd:443 HTTP/1.1\r\nhost: otpd\r\n\r\nhello");
        await until((bytes) => (bytes.includes("METHOD_NOT_ALLOWED") ? true : undefined));
        socket.resetAndDestroy();
      }
      expect(otpd.errors()).not.toContain("Unhandled");
      expect(otpd.process.exitCode).toBeNull();
    });
  },
);
