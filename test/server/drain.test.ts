/**
 * A stop that waits for its balancer: the real process says that it is not ready, and answers every call meanwhile.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { surfaces } from "../support/clients/surfaces.ts";
import { newPhone } from "../support/data/phones.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
beforeAll(() => {
  folder = temporaryFolder();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a stop answers calls on every surface while it says that it is not ready, until it is told again", async () => {
  const otpd = await startOtpd(folder, { OTP_DRAIN_SECONDS: "300", OTP_SEND_WAIT_MS: "10000" });
  const key = await firstKey(otpd);
  const ready = () => fetch(`${otpd.url}/readyz`, { headers: { connection: "close" } });
  expect((await ready()).status).toBe(200);
  otpd.process.kill("SIGTERM");
  await otpd.waitFor(/"drain_seconds":300,"msg":"stopping"/, "errors");
  const said = await ready();
  expect([said.status, await said.json()]).toMatchObject([
    503,
    { status: "not_ready", checks: { serving: "failing" } },
  ]);
  expect((await fetch(`${otpd.url}/livez`)).status).toBe(200);
  for (const surface of surfaces) {
    const sent = await surface.call(otpd.url, "SendOtp", { phone: newPhone() }, { key });
    expect([surface.name, sent.reason, sent.value?.["state"]]).toEqual([surface.name, undefined, "STATE_PENDING"]);
  }
  const healthy = await fetch(`${otpd.url}/grpc.health.v1.Health/Check`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect(await healthy.json()).toEqual({ status: "NOT_SERVING" });
  expect(await otpd.end("SIGTERM")).toBe(0);
  expect(otpd.errors()).toMatch(/"msg":"stopped"/);
});

test("it ends by itself once the wait is over, and not before", async () => {
  const otpd = await startOtpd(folder, { OTP_DRAIN_SECONDS: "2" });
  const beganMs = performance.now();
  expect(await otpd.end("SIGTERM")).toBe(0);
  // Timers may come a millisecond early.
  expect(performance.now() - beganMs).toBeGreaterThan(1_990);
});
