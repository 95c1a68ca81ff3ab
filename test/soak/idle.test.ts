/**
 * 10,000 connections of strangers who have asked for one thing and then nothing, on the real process: what each of them has
 * it hold, in kilobytes, while an honest caller is answered. docs/operate.md names the figures.
 */
import { once } from "node:events";
import { writeFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { idle } from "../support/clients/attacks.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { firstKey, forgetPeak, peakMiB, residentMiB, startOtpd, type Otpd } from "../support/processes/process.ts";
import { mallocSettings } from "../support/service/held.ts";
import { temporaryFolder } from "../support/service/world.ts";

const connections = 10_000;
/** Opened at once. */
const lanes = 50;
const certificate = makeCertificate("idle");

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  rmSync(folder, { recursive: true, force: true });
});

async function start(isSecure: boolean): Promise<Otpd> {
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(certFile, certificate.cert);
  writeFileSync(keyFile, certificate.key, { mode: 0o600 });
  return startOtpd(folder, {
    // Twice as many: from three quarters on an address makes room for newcomers.
    OTP_MAX_CONNECTIONS: `${2 * connections}`,
    ...mallocSettings,
    ...(isSecure ? { OTP_TLS_CERT_FILE: certFile, OTP_TLS_KEY_FILE: keyFile } : {}),
  });
}

async function call(otpd: Otpd, key: string): Promise<number | undefined> {
  const options = { headers: { authorization: `Bearer ${key}`, connection: "close" }, ca: certificate.cert };
  const path = `${otpd.url}/v1/otp/${"A".repeat(22)}`;
  if (path.startsWith("http:")) return (await fetch(path, { headers: options.headers })).status;
  const asked = request(path, options).end();
  const [answer] = (await once(asked, "response")) as [{ statusCode?: number; resume(): void }];
  answer.resume();
  return answer.statusCode;
}

test.each([
  { speaks: "HTTP/1", isSecure: false, mostKb: 28 },
  { speaks: "HTTP/2", isSecure: false, mostKb: 28 },
  { speaks: "HTTP/1", isSecure: true, mostKb: 147 },
  { speaks: "HTTP/2", isSecure: true, mostKb: 147 },
] as const)("idle strangers on $speaks, over TLS: $isSecure, hold a bounded amount each", async (kind) => {
  const otpd = await start(kind.isSecure);
  onTestFinished(async () => {
    await otpd.end();
  });
  const { pid } = otpd.process;
  const port = Number(new URL(otpd.url).port);
  const key = await firstKey(otpd);
  for (let i = 0; i < 300; i += 1) expect(await call(otpd, key)).toBe(404);
  const restingMiB = residentMiB(pid);
  forgetPeak(pid);
  const { bytes } = idle(connections, kind.speaks);
  const protocol = kind.speaks === "HTTP/2" ? "h2" : "http/1.1";
  let open = 0;
  const openOne = async () => {
    const socket = kind.isSecure
      ? connectTls({ port, host: "127.0.0.1", ca: certificate.cert, ALPNProtocols: [protocol] })
      : connect(port, "127.0.0.1");
    sockets.push(socket);
    socket.on("error", () => {}).once("close", () => (open -= 1));
    open += 1;
    socket.write(bytes);
    await Promise.race([once(socket, "data"), once(socket, "close")]);
  };
  const lane = async () => {
    while (sockets.length < connections) await openOne();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  expect(await call(otpd, key)).toBe(404);
  const grownMiB = peakMiB(pid) - restingMiB;
  const kb = (grownMiB * 1_048_576) / 1_000 / open;
  console.log(
    `${kind.speaks}${kind.isSecure ? " over TLS" : ""}: ${restingMiB.toFixed(0)} MiB at rest, ${grownMiB.toFixed(0)} more with ${open} connections, ${kb.toFixed(1)} KB each`,
  );
  expect(kb).toBeLessThan(kind.mostKb);
});
