/**
 * TLS: both protocols by ALPN, old versions refused, a certificate that changes under way, and the same limits as without.
 */
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { constants } from "node:http2";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { GetOtpRequestSchema, OtpService, SendOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { lacks } from "../support/machine.ts";
import { startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";
import { holdTicks, passTicks, releaseTicks } from "../support/service/ticks.ts";
import { firstKey, runOtpd, startOtpd, type Otpd } from "../support/processes/process.ts";
import { callFrames, callText, framesIn, frameType, openRaw, preface, settings } from "../support/clients/raw.ts";
import { temporaryFolder } from "../support/service/world.ts";

const lacksOpenssl = lacks("TLS", "openssl");
const first = lacksOpenssl ? { cert: "", key: "" } : makeCertificate("first");

async function handshake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return socket;
}

describe.skipIf(lacksOpenssl)("with a certificate", () => {
  let listener: Listener;
  beforeEach(holdTicks);
  afterEach(async () => {
    await listener.stop(0);
    releaseTicks();
  });
  const listen = async (options: ListenerOptions = {}) => {
    listener = await startListener({ readCertificate: () => first, ...options });
  };

  test.each([
    ["h2", ["h2", "http/1.1"]],
    ["http/1.1", ["http/1.1"]],
  ])("%s is agreed on by ALPN", async (agreed, offered) => {
    await listen();
    const socket = await handshake(listener.port, { ALPNProtocols: offered });
    expect(socket.alpnProtocol).toBe(agreed);
    socket.destroy();
  });

  test("gRPC, Connect on both protocols and REST are served", async () => {
    await listen();
    const nodeOptions = { ca: first.cert };
    const headers = { authorization: `Bearer ${testKey}` };
    const message = create(SendOtpRequestSchema, { phone: "+31612345678" });
    const transports = [
      createGrpcTransport({ baseUrl: listener.url, nodeOptions }),
      createConnectTransport({ baseUrl: listener.url, httpVersion: "2", nodeOptions }),
      createConnectTransport({ baseUrl: listener.url, httpVersion: "1.1", nodeOptions }),
    ];
    for (const transport of transports) {
      const sent = await createClient(OtpService, transport).sendOtp(message, { headers });
      expect(sent.requestId).toHaveLength(22);
    }
    const socket = await handshake(listener.port);
    const rest = await openRaw(listener.port, socket);
    rest.write(callText(testKey));
    expect(await rest.until((bytes) => /^HTTP\/1\.1 (\d+)/.exec(bytes.toString())?.[1])).toBe("200");
    expect(listener.calls.map(({ call }) => call.surface)).toEqual(["grpc", "connect", "connect", "rest"]);
    rest.destroy();
  });

  test.each(["TLSv1", "TLSv1.1"] as const)("%s is refused", async (version) => {
    await listen();
    const old = { minVersion: version, maxVersion: version, ciphers: "ALL@SECLEVEL=0" };
    await expect(handshake(listener.port, old)).rejects.toThrow(/alert protocol version/);
  });

  test.each(["TLSv1.2", "TLSv1.3"] as const)("%s is taken", async (version) => {
    await listen();
    const socket = await handshake(listener.port, { minVersion: version, maxVersion: version });
    expect(socket.getProtocol()).toBe(version);
    socket.destroy();
  });

  test("keys are agreed on in groups that take little time alone: a client has the choice", async () => {
    await listen();
    for (const [offered, agreed] of [
      ["X25519", "X25519"],
      ["P-521:P-384:P-256", "prime256v1"],
    ] as const) {
      const socket = await handshake(listener.port, { ecdhCurve: offered });
      expect(socket.getEphemeralKeyInfo()).toMatchObject({ name: agreed });
      socket.destroy();
    }
    for (const ecdhCurve of ["P-521", "P-384", "X448", "ffdhe3072"]) {
      await expect(handshake(listener.port, { ecdhCurve })).rejects.toThrow(/alert handshake failure/);
    }
  });

  test.each([
    ["HTTP/1", callText(testKey)],
    ["HTTP/2", Buffer.concat([Buffer.from(preface), settings()])],
    ["noise", Buffer.alloc(1_000, 0xff)],
  ])("a client that speaks %s without TLS is hung up on", async (_, bytes) => {
    await listen();
    const plain = await openRaw(listener.port);
    plain.write(bytes);
    expect((await plain.closed).toString("latin1")).not.toContain(" 200 ");
    const socket = await handshake(listener.port);
    expect(socket.authorized).toBe(false);
    socket.destroy();
  });

  test("a handshake that does not come to its end is hung up on, and does not hold up a stop", async () => {
    await listen({ limits: { requestMs: 100, halfOpenMs: 200 } });
    const begun = await openRaw(listener.port);
    begun.write(Buffer.from([22, 3, 1, 2, 0]));
    await begun.closed;
    const nothing = await openRaw(listener.port);
    await listener.open(1);
    passTicks(300);
    await nothing.closed;
    await listener.stop(0);
    await listen();
    const silent = await openRaw(listener.port);
    silent.write(Buffer.from([22, 3, 1, 2, 0]));
    // Taken by now, since connections are taken in order.
    (await handshake(listener.port)).destroy();
    await listener.server.stop(0);
    expect(await silent.closed).toHaveLength(0);
  });

  test.each([
    ["HTTP/1", ["http/1.1"], [callText("wrong key")]],
    ["HTTP/2", ["h2"], [preface, settings(), callFrames(1, 1, "wrong key")]],
  ])("idle and half-open connections on %s are closed", async (_, offered, call) => {
    await listen({ limits: { halfOpenMs: 100, strangerIdleMs: 200 } });
    const halfOpen = await openRaw(listener.port, await handshake(listener.port, { ALPNProtocols: offered }));
    const stranger = await openRaw(listener.port, await handshake(listener.port, { ALPNProtocols: offered }));
    stranger.write(...call);
    await listener.answered(1);
    const order: string[] = [];
    const bothClosed = Promise.all([
      halfOpen.closed.then(() => order.push("half open")),
      stranger.closed.then(() => order.push("stranger")),
    ]);
    passTicks(150);
    await halfOpen.closed;
    passTicks(100);
    await bothClosed;
    expect(order).toEqual(["half open", "stranger"]);
    expect(listener.calls).toHaveLength(1);
  });

  test("a header that drips is answered 408", async () => {
    await listen({ limits: { requestMs: 2_000, halfOpenMs: 3_600_000 } });
    const slow = await openRaw(listener.port, await handshake(listener.port));
    slow.write("POST /v1/otp/send HTTP/1.1\r\nx-drip: ");
    expect((await slow.closed).toString()).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("a connection past its age finishes its calls and is told to go", async () => {
    await listen({ limits: { maxAgeMs: 100 } });
    listener.hang();
    const socket = await handshake(listener.port, { ALPNProtocols: ["h2"] });
    const caller = await openRaw(listener.port, socket);
    caller.write(preface, settings(), callFrames(listener.port, 1, testKey));
    await listener.hanging(1);
    passTicks(100);
    listener.letGo();
    await listener.answered(1);
    passTicks(50);
    const frames = framesIn(await caller.closed);
    const goaway = frames.find(({ type }) => type === frameType.goaway);
    expect(goaway?.payload).toEqual(Buffer.from([0, 0, 0, 1, 0, 0, 0, constants.NGHTTP2_NO_ERROR]));
    expect(listener.calls).toMatchObject([{ status: 200 }]);
  });
});

describe.skipIf(lacksOpenssl)("the certificate of a running service", () => {
  const folder = temporaryFolder();
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  let otpd: Otpd;
  let key: string;
  const put = ({ cert, key: pem }: { cert: string; key: string }) => {
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, pem);
  };
  beforeAll(async () => {
    put(first);
    // Called as fast as it answers.
    const unlimited = { OTP_KEY_LIMIT: "none" };
    otpd = await startOtpd(folder, { ...unlimited, OTP_TLS_CERT_FILE: certFile, OTP_TLS_KEY_FILE: keyFile });
    key = await firstKey(otpd);
  });
  afterAll(async () => {
    await otpd.end();
    rmSync(folder, { recursive: true, force: true });
  });
  const port = () => Number(new URL(otpd.url).port);
  test("is held against its key before anything listens: another one's key is refused by name", async () => {
    const place = temporaryFolder();
    const other = join(place, "other.pem");
    writeFileSync(other, makeCertificate("other").key);
    const env = { OTP_PORT: "0", OTP_TLS_CERT_FILE: certFile, OTP_TLS_KEY_FILE: other };
    const { code, output, errors } = await runOtpd(place, ["serve"], env);
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toMatch(/^OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE do not belong together: .*other\.pem/m);
    rmSync(place, { recursive: true });
  });

  const served = async () => {
    const socket = await handshake(port());
    const name = socket.getPeerCertificate().subject.CN;
    socket.destroy();
    return name;
  };

  /** Calls without a pause over REST, half of them on new connections, and over gRPC, until told to stop. */
  function load(): { done: () => Promise<number> } {
    let going = true;
    let answered = 0;
    const headers = { authorization: `Bearer ${key}` };
    const kept = new Agent({ keepAlive: true, rejectUnauthorized: false });
    const fresh = new Agent({ keepAlive: false, rejectUnauthorized: false });
    const get = async (agent: Agent) => {
      const sending = request({ agent, port: port(), host: "127.0.0.1", path: `/v1/otp/${"A".repeat(22)}`, headers });
      sending.end();
      const [answer] = (await once(sending, "response")) as [import("node:http").IncomingMessage];
      answer.resume();
      await once(answer, "end");
      expect(answer.statusCode).toBe(404);
    };
    const grpc = createClient(
      OtpService,
      createGrpcTransport({ baseUrl: `https://127.0.0.1:${port()}`, nodeOptions: { rejectUnauthorized: false } }),
    );
    const message = create(GetOtpRequestSchema, { requestId: "A".repeat(22) });
    const calls = [
      () => get(kept),
      () => get(fresh),
      async () => expect(grpc.getOtp(message, { headers })).rejects.toMatchObject({ rawMessage: /request/i }),
    ];
    const loops = calls.map(async (call) => {
      while (going) {
        await call();
        answered += 1;
      }
    });
    return {
      async done() {
        going = false;
        await Promise.all(loops);
        kept.destroy();
        fresh.destroy();
        return answered;
      },
    };
  }

  test("is read again at SIGHUP, and no call fails meanwhile", async () => {
    const calls = load();
    for (const name of ["second", "third", "fourth"]) {
      const before = otpd.errors().split('"msg":"reloaded"').length;
      put(makeCertificate(name));
      otpd.process.kill("SIGHUP");
      await otpd.waitFor(new RegExp(`("msg":"reloaded"[^]*){${before}}`), "errors");
      expect(await served()).toBe(name);
    }
    expect(await calls.done()).toBeGreaterThan(10);
  });

  const bad: [string, () => { cert: string; key: string }][] = [
    ["does not belong to its key", () => ({ ...makeCertificate("stray"), key: first.key })],
    ["is empty", () => ({ cert: "", key: "" })],
    ["is not PEM", () => ({ cert: "not a certificate", key: first.key })],
    ["is damaged", () => ({ cert: first.cert.replace(/\n[^-\n]{20}/, "\n!!!!"), key: first.key })],
  ];
  test.each(bad)("stays as it was when the new one %s, which is logged", async (_, make) => {
    const before = await served();
    const faults = otpd.errors().split('"where":"certificate"').length;
    put(make());
    otpd.process.kill("SIGHUP");
    await otpd.waitFor(new RegExp(`("where":"certificate"[^]*){${faults}}`), "errors");
    expect(await served()).toBe(before);
    expect(otpd.errors()).not.toContain("PRIVATE KEY");
  });
});
