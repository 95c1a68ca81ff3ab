/**
 * Clients of otpd's own TLS who send their first message and leave, before the real process gets to read from them: it makes
 * nothing of them that it would have to hold.
 */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { Agent, request } from "node:https";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { writeCertificate } from "../support/network/certificate.ts";
import { firstMessage } from "../support/network/client-hello.ts";
import { forgetPeak, peakMiB, residentMiB, startOtpd, type Otpd } from "../support/processes/process.ts";
import { mallocSettings } from "../support/service/held.ts";
import { temporaryFolder } from "../support/service/world.ts";

/** As many as the system keeps for a listener, less some: all wait at once when the process goes on. */
const leavers = 3_500;
/** What docs/security.md promises; when TLS was begun for each of them, they took 90 to 190. */
const growthMiBMax = 64;

async function comeAndLeave(port: number, bytes: Buffer, from: string): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1", localAddress: from });
  await once(socket, "connect");
  socket.write(bytes, () => socket.destroy());
  await once(socket, "close");
}

describe.skipIf(lacks("handshakes that are left", "openssl"))("with a certificate", () => {
  const folder = temporaryFolder();
  let otpd: Otpd;
  let ports: { callers: number; operators: number };
  let restingMiB: number;

  beforeAll(async () => {
    otpd = await startOtpd(folder, {
      ...writeCertificate(folder, "left"),
      OTP_ADMIN: "loopback",
      ...mallocSettings,
    });
    const [, operators] = await otpd.waitFor(/https:\S+:(\d+)\/console#token=/);
    ports = { callers: Number(new URL(otpd.url).port), operators: Number(operators) };
    for (const port of Object.values(ports)) for (let i = 0; i < 150; i += 1) await ask(port);
    restingMiB = residentMiB(otpd.process.pid);
  });
  afterAll(async () => {
    await otpd.end();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Asks on a connection of its own, of another address, and resolves with the status. */
  async function ask(port: number): Promise<number | undefined> {
    const agent = new Agent({ rejectUnauthorized: false });
    const asking = request({ port, host: "127.0.0.1", localAddress: "127.0.0.2", path: "/nowhere", agent }).end();
    const [answer] = await once(asking, "response");
    answer.resume();
    await once(answer, "end");
    agent.destroy();
    return answer.statusCode;
  }

  test.each([
    ["one address", "callers", () => "127.0.0.3"],
    ["many addresses", "callers", (i: number) => `127.1.${i >> 8}.${i & 255}`],
    ["one address, to the operators' port", "operators", () => "127.0.0.3"],
  ] as const)("those who leave, of %s, cost next to nothing", async (_, to, from) => {
    const port = ports[to];
    const { pid } = otpd.process;
    const bytes = await firstMessage();
    forgetPeak(pid);
    otpd.process.kill("SIGSTOP");
    let next = 0;
    const some = async () => {
      while (next < leavers) await comeAndLeave(port, bytes, from(next++));
    };
    await Promise.all(Array.from({ length: 50 }, some));
    otpd.process.kill("SIGCONT");
    expect(await ask(port)).toBe(404);
    expect(peakMiB(pid) - restingMiB).toBeLessThan(growthMiBMax);
  });
});
