/**
 * A graceful stop of the real process: nothing that was sent before it is lost, and nothing holds it up.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startListener, testKey } from "../support/service/listener.ts";
import { callText } from "../support/clients/raw.ts";
import { freePort } from "../support/network/ports.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";
import { stopUnderLoad } from "../support/processes/stop-under-load.ts";
import { temporaryFolder } from "../support/service/world.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
function newFolder(): string {
  const folder = temporaryFolder();
  folders.push(folder);
  return folder;
}

test.each([1, 2, 3, 4, 5])(
  "no call under way fails when the process is stopped under load, round %i",
  async (round) => {
    const stopped = await stopUnderLoad(100 + 40 * round, round % 2 === 0);
    expect(stopped).toMatchObject({ exitCode: 0, lost: [], unsettled: 0 });
    expect(stopped.answeredLeast).toBeGreaterThan(0);
    expect(stopped.tookMs).toBeLessThan(10_000);
  },
);

/** Opens connections, sends a whole call on each, says so by a file, and prints the status lines of the answers. */
const crowd = `
  const [port, text, file, count] = process.argv.slice(1);
  let sent = 0;
  for (let i = 0; i < Number(count); i++) {
    const socket = require("node:net").connect(Number(port), "127.0.0.1", () =>
      socket.write(text, () => ++sent === Number(count) && require("node:fs").writeFileSync(file, "")));
    socket.once("data", (chunk) => console.log(chunk.toString().slice(0, 12)));
    socket.on("error", (error) => console.log(error.code));
  }
`;

test("connections that wait to be taken when the stop comes are taken, and their calls answered", async () => {
  const listener = await startListener();
  const file = join(newFolder(), "sent");
  const child = spawn(process.execPath, ["-e", crowd, `${listener.port}`, callText(testKey), file, "40"]);
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const closed = once(child, "close");
  // The event loop stands still meanwhile, so nothing is taken: the connections wait in the system's backlog.
  const still = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(file)) Atomics.wait(still, 0, 0, 5);
  await listener.stop(60_000);
  await closed;
  expect(output).toBe("HTTP/1.1 200\n".repeat(40));
});

test("a provider that never answers holds up neither the caller nor the stop beyond 10 s", async () => {
  const deaf = createServer(() => {}).listen(0, "127.0.0.1");
  await once(deaf, "listening");
  const otpd = await startOtpd(newFolder(), {
    OTP_PROVIDERS: "webhook",
    OTP_WEBHOOK_URL: `http://127.0.0.1:${(deaf.address() as AddressInfo).port}/`,
    OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
    OTP_SEND_WAIT_MS: "10000",
    OTP_ALLOWED_COUNTRIES: "NL",
  });
  const headers = { authorization: `Bearer ${await firstKey(otpd)}`, "content-type": "application/json" };
  const called = once(deaf, "request");
  const sending = fetch(`${otpd.url}/v1/otp/send`, { method: "POST", headers, body: '{"phone":"+31612345678"}' });
  await called;
  const began = process.hrtime.bigint();
  const [answer, code] = await Promise.all([sending, otpd.end()]);
  const tookMs = Number(process.hrtime.bigint() - began) / 1e6;
  deaf.closeAllConnections();
  deaf.close();
  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({
    state: "STATE_PENDING",
    delivery: expect.stringMatching(/QUEUED|SENDING/),
  });
  expect(code).toBe(0);
  expect(tookMs).toBeLessThan(10_000);
});

test("a restart waits for its predecessor to let go, and then serves on the same port", async () => {
  const folder = newFolder();
  const port = `${await freePort()}`;
  const first = await startOtpd(folder, { OTP_PORT: port });
  const key = await firstKey(first);
  let isUp = false;
  const starting = startOtpd(folder, { OTP_PORT: port }).finally(() => (isUp = true));
  // Answered by the first all the while.
  const headers = { authorization: `Bearer ${key}` };
  const call = () => fetch(`${first.url}/v1/otp/${"A".repeat(22)}`, { headers });
  for (let i = 0; i < 50; i += 1) expect((await call()).status).toBe(404);
  expect(isUp).toBe(false);
  expect(await first.end()).toBe(0);
  const second = await starting;
  expect((await call()).status).toBe(404);
  expect(await second.end()).toBe(0);
});
