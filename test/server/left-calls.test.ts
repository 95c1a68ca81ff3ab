/** Pages' calls whose answer came before what they began is done: their connection is others' by then. */
import { Agent } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { overHttp1 } from "../support/clients/wire.ts";
import { pageKey, startListener, testKey } from "../support/service/listener.ts";

test("a late call's connection stays for the next one where another page needs its place", async () => {
  const listener = await startListener({ callsMax: 8 });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(async () => {
    agent.destroy();
    await listener.stop(0);
  });
  const call = (key: string, more: { agent?: Agent; from?: string } = {}, headers: Record<string, string> = {}) =>
    overHttp1(listener.url, {
      path: "/otp.v1.OtpService/SendOtp",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: '{"phone":"+31612345678"}',
      ...more,
    });
  listener.hang();
  // All that pages have of 8.
  for (let i = 0; i < 4; i += 1) {
    const late = await call(pageKey, { agent }, { "connect-protocol-version": "1", "connect-timeout-ms": "50" });
    expect(late.status).toBe(504);
  }
  const next = call(testKey, { agent });
  await listener.hanging(5);
  const visitor = call(pageKey, { from: "127.0.0.2" });
  await listener.hanging(6);
  listener.letGo();
  expect([(await next).status, (await visitor).status]).toEqual([200, 200]);
});
