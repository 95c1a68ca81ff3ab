/**
 * /livez and /readyz over real sockets: what they say, that a stranger may ask, and that they are answered when nothing
 * else is.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { callText, openRaw } from "../support/clients/raw.ts";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ OTP_SEND_WAIT_MS: "1000" });
});
afterAll(() => world.stop());

async function ask(path: string, method = "GET") {
  const { status, text, headers } = await overHttp1(world.url, { method, path });
  return { status, headers, body: (text === "" ? undefined : JSON.parse(text)) as unknown };
}
const ready = (result: Record<string, string>) => ({
  status: "ready",
  checks: { serving: "ok", database: "ok", provider: "ok", ...result },
});

test("both answer without a key, to GET and HEAD, over HTTP/1.1 and HTTP/2, and are not to be kept", async () => {
  for (const [path, body] of [
    ["/livez", { status: "alive" }],
    ["/readyz", ready({})],
  ] as const) {
    const got = await ask(path);
    expect(got).toMatchObject({ status: 200, body });
    expect([got.headers.get("content-type"), got.headers.get("cache-control")]).toEqual([
      "application/json",
      "no-store",
    ]);
    const head = await ask(path, "HEAD");
    expect(head).toMatchObject({ status: 200, body: undefined });
    expect(head.headers.get("content-length")).toBe(got.headers.get("content-length"));
    expect((await overHttp2(world.url, { method: "GET", path })).status).toBe(200);
    const post = await ask(path, "POST");
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  }
});

test("a check can be left out, and one that there is not is refused", async () => {
  expect((await ask("/readyz?exclude=provider")).body).toEqual({
    status: "ready",
    checks: { serving: "ok", database: "ok" },
  });
  expect((await ask("/readyz?exclude=provider&exclude=database")).body).toEqual({
    status: "ready",
    checks: { serving: "ok" },
  });
  expect(await ask("/readyz?exclude=disk")).toMatchObject({
    status: 400,
    body: { reason: "INVALID_REQUEST", message: "exclude must be one of serving, database, provider." },
  });
});

test("the query is not unescaped, and one longer than any is refused: escapes that are no UTF-8 take 13 us each", async () => {
  const escapes = "%FF&".repeat(60);
  expect((await ask(`/readyz?${escapes}exclude=provider`)).body).toMatchObject({
    checks: { serving: "ok", database: "ok" },
  });
  expect((await ask("/readyz?exclude=%70rovider")).body).toMatchObject({ reason: "INVALID_REQUEST" });
  expect(await ask(`/readyz?${escapes}${escapes}`)).toMatchObject({
    status: 400,
    body: { reason: "INVALID_REQUEST", message: "The query has more than 256 characters." },
  });
});

test("while the only provider's breaker is open it is not ready; then somebody has to come and try it", async () => {
  world.network.script.push(...Array.from({ length: 5 }, () => ({ kind: "unavailable", detail: "secret" }) as const));
  const headers = { authorization: `Bearer ${world.key}`, "content-type": "application/json" };
  const sends = [0, 1, 2, 3, 4].map((i) =>
    overHttp1(world.url, { path: "/v1/otp/send", headers, body: `{"phone":"+3161234567${i}"}` }),
  );
  await Promise.all(sends);
  const notReady = { ...ready({ provider: "failing" }), status: "not_ready" };
  await expect.poll(() => ask("/readyz")).toMatchObject({ status: 503, body: notReady });
  const head = await ask("/readyz", "HEAD");
  expect([head.status, head.body]).toEqual([503, undefined]);
  expect((await ask("/livez")).status).toBe(200);
  expect((await ask("/readyz?exclude=provider")).status).toBe(200);
  world.system.advance(8_999);
  expect((await ask("/readyz")).status).toBe(503);
  // Without traffic nothing would ever try the provider again, so the instance must ask for it.
  world.system.advance(1);
  expect(await ask("/readyz")).toMatchObject({ status: 200, body: ready({}) });
});

describe("when nothing else is answered", () => {
  const probe = {
    methods: ["GET"],
    isUrgent: true,
    answer: async () => ({ ok: true, value: { type: "text/plain", body: "alive" } }) as const,
  };
  const pageOf = (path: string) => (path === "/livez" ? probe : undefined);

  const headers = { authorization: `Bearer ${testKey}`, "content-type": "application/json" };
  const probeOf = async ({ url }: Listener) => (await overHttp1(url, { method: "GET", path: "/livez" })).status;
  const callOf = async ({ url }: Listener) =>
    JSON.parse((await overHttp1(url, { path: "/v1/otp/send", headers, body: "{}" })).text) as { reason: string };

  test("because the house is full, probes are", async () => {
    const listener = await startListener({ callsMax: 1, pageOf });
    listener.hang();
    const raw = await openRaw(listener.port);
    raw.write(callText(testKey));
    await listener.hanging(1);
    expect(await callOf(listener)).toMatchObject({ reason: "STORE_UNAVAILABLE" });
    expect(await probeOf(listener)).toBe(200);
    // And whoever was sent away is counted, though no call came of it.
    expect(listener.turnedAway).toEqual([["STORE_UNAVAILABLE", "SendOtp"]]);
    raw.destroy();
    await listener.stop();
  });

  test("because the server stops, probes are", async () => {
    const listener = await startListener({ pageOf });
    await listener.gateway.drain();
    expect(await callOf(listener)).toMatchObject({ reason: "SHUTTING_DOWN" });
    expect(await probeOf(listener)).toBe(200);
    await listener.stop();
  });
});
