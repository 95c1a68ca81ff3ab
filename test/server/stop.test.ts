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
import type { Page } from "../../src/server/pages/pages.ts";
import { pageKey, startListener, testKey } from "../support/service/listener.ts";
import { callFrames, callText, framesIn, frameType, openRaw, preface, settings } from "../support/clients/raw.ts";
import { freePort } from "../support/network/ports.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";
import { stopUnderLoad } from "../support/processes/stop-under-load.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
function newFolder(): string {
  const folder = temporaryFolder();
  folders.push(folder);
  return folder;
}

/** Kubernetes kills what has not ended by then. A stop takes 10 s at most on a machine that has the time. */
const graceMs = 30_000;

test.each(sampled([1, 2, 3, 4, 5], 3))(
  "no call under way fails when the process is stopped under load, round %i",
  async (round) => {
    const stopped = await stopUnderLoad(100 + 40 * round, round % 2 === 0);
    expect(stopped).toMatchObject({ exitCode: 0, lost: [], unsettled: 0 });
    expect(stopped.answeredLeast).toBeGreaterThan(0);
    expect(stopped.tookMs).toBeLessThan(graceMs);
  },
);

/**
 * Opens connections, sends its text on each, says so by a file, and prints the status lines of the answers; of the first
 * `strangers` it sends a lot on each, and prints nothing.
 */
const crowd = `
  const [port, text, file, count, strangers] = process.argv.slice(1);
  let sent = 0;
  const onSent = () => ++sent === Number(count) && require("node:fs").writeFileSync(file, "");
  for (let i = 0; i < Number(count); i++) {
    const isStranger = i < Number(strangers);
    const bytes = isStranger ? "GET /livez HTTP/1.1\\r\\nhost: otpd\\r\\n\\r\\n".repeat(100) : text;
    const socket = require("node:net").connect(Number(port), "127.0.0.1", () => socket.write(bytes, onSent));
    socket.once("data", (chunk) => isStranger || console.log(chunk.toString().slice(0, 12)));
    socket.on("error", (error) => isStranger || console.log(error.code));
  }
`;

test.each([
  ["by themselves", 0],
  ["behind strangers who use up turns", 60],
])(
  "connections that wait to be taken when the stop comes, %s, are taken, and their calls answered",
  async (_, strangers) => {
    const listener = await startListener();
    const file = join(newFolder(), "sent");
    const args = [`${listener.port}`, callText(testKey), file, `${strangers + 40}`, `${strangers}`];
    const child = spawn(process.execPath, ["-e", crowd, ...args]);
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const closed = once(child, "close");
    // The event loop stands still meanwhile, so nothing is taken: the connections wait in the system's backlog.
    const still = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(file)) Atomics.wait(still, 0, 0, 5);
    await listener.stop(60_000);
    await closed;
    expect(output).toBe("HTTP/1.1 200\n".repeat(40));
  },
);

test("strangers who leave things undone do not hold up a stop, and callers whom we owe an answer get it", async () => {
  const report: Page = {
    methods: ["POST"],
    acts: true,
    answer: async () => ({ ok: true, value: { type: "", body: "" } }),
  };
  const pageOf = (path: string) => (path === "/webhooks/test" ? report : undefined);
  // Nothing else would end them before the test is over.
  const listener = await startListener({
    pageOf,
    deadlineMs: 40_000,
    limits: { callMs: 40_000, requestMs: 40_000 },
  });
  const half = "content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
  const halfReport = await openRaw(listener.port);
  halfReport.write(`POST /webhooks/test HTTP/1.1\r\nhost: otpd\r\n${half}`);
  const halfCall = await openRaw(listener.port);
  halfCall.write(`POST /v1/otp/send HTTP/1.1\r\nhost: otpd\r\nauthorization: Bearer ${pageKey}\r\n${half}`);
  const untaken = await openRaw(listener.port);
  untaken.write(preface, settings([4, 0]), callFrames(listener.port, 1, pageKey));
  await untaken.until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.headers));
  listener.hang();
  const backend = await openRaw(listener.port);
  backend.write(callText(testKey));
  const page = await openRaw(listener.port);
  page.write(preface, settings(), callFrames(listener.port, 1, pageKey));
  const pageBehind = await openRaw(listener.port);
  pageBehind.write(callText(pageKey), `POST /v1/otp/send HTTP/1.1\r\nhost: otpd\r\n${half}`);
  await listener.hanging(3);
  const began = performance.now();
  const stopping = listener.stopHanging(40_000);
  await Promise.all([
    halfReport.closed,
    halfCall.closed,
    untaken.until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.reset)),
  ]);
  expect(performance.now() - began).toBeLessThan(20_000);
  listener.letGo();
  expect((await backend.closed).toString()).toMatch(/^HTTP\/1.1 200 /);
  expect((await pageBehind.closed).toString()).toMatch(/^HTTP\/1.1 200 /);
  const answered = framesIn(await page.closed).map(({ type }) => type);
  expect(answered).toContain(frameType.headers);
  expect(answered).not.toContain(frameType.reset);
  await stopping;
});

test("a provider that never answers holds up neither the caller nor the stop", async () => {
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
  expect(tookMs).toBeLessThan(graceMs);
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
