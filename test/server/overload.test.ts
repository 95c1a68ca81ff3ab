/**
 * A full house: the calls that find no place are refused at once, on every surface and whatever they look like, and the
 * rest is served. How much is served beyond what the machine can do is measured in test/soak.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";
import { surfaces } from "../support/clients/surfaces.ts";

const callsMax = 3;
let listener: Listener;
let held: Promise<unknown>[];

/** Fills every place with a call that hangs. */
beforeEach(async () => {
  listener = await startListener({ callsMax });
  listener.hang();
  held = Array.from({ length: callsMax }, () => get());
  await listener.hanging(callsMax);
});
afterEach(() => listener.stop());

const path = `/v1/otp/${"A".repeat(22)}`;
const rpcPath = "/otp.v1.OtpService/GetOtp";
const get = (to = path, headers: Record<string, string> = {}) =>
  fetch(`${listener.url}${to}`, { headers: { authorization: `Bearer ${testKey}`, ...headers } });

test.each(surfaces)("$name refuses as STORE_UNAVAILABLE with Retry-After, and serves again after", async (surface) => {
  const call = () => surface.call(listener.url, "SendOtp", { phone: "+31612345678" }, { key: testKey });
  // The first is made for its kind of call, the second is the same again.
  for (let i = 0; i < 2; i += 1) {
    const refused = await call();
    expect(refused).toMatchObject({ reason: "STORE_UNAVAILABLE", code: "UNAVAILABLE", retryAfterSeconds: 1 });
    expect(refused.http ?? 503).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
  }
  listener.letGo();
  await Promise.all(held);
  expect((await call()).value).toMatchObject({ state: "STATE_PENDING" });
});

test("a refusal is the same for everybody, whatever the first one to be refused has asked for", async () => {
  const query = "?encoding=json&message=%7B%22request_id%22%3A%22x%22%7D";
  const odd: [string, Record<string, string>][] = [
    [`${rpcPath}?encoding=none`, { "connect-timeout-ms": "nonsense" }],
    [`${rpcPath}?encoding=json&compression=none`, { "accept-encoding": "gzip", "connect-protocol-version": "9" }],
    [path, { "accept-encoding": "gzip", "idempotency-key": "\t" }],
  ];
  for (const [to, headers] of odd) await (await get(to, headers)).text();
  for (const to of [rpcPath + query, path]) {
    const answer = await get(to);
    expect(answer.status).toBe(503);
    expect(Object.fromEntries(answer.headers)).toMatchObject({ "retry-after": "1", "cache-control": "no-store" });
    expect(await answer.json()).toMatchObject({ code: "unavailable" });
  }
  listener.letGo();
  await Promise.all(held);
});

test("a full house is refused before anybody's key is looked at, but not what has no key or is no call at all", async () => {
  const wrong = { authorization: "Bearer wrong" };
  expect((await get(path, wrong)).status).toBe(503);
  expect((await fetch(`${listener.url}${path}`)).status).toBe(401);
  expect((await fetch(`${listener.url}/nowhere`)).status).toBe(404);
  listener.letGo();
  await Promise.all(held);
  expect((await get(path, wrong)).status).toBe(401);
});

test("a client that goes gives its place back", async () => {
  const leave = new AbortController();
  listener.letGo();
  await Promise.all(held);
  listener.hang();
  const left = Array.from({ length: callsMax }, () =>
    fetch(`${listener.url}${path}`, { headers: { authorization: `Bearer ${testKey}` }, signal: leave.signal }),
  );
  await listener.hanging(callsMax);
  leave.abort();
  await Promise.allSettled(left);
  await listener.answered(2 * callsMax);
  // The acts themselves still hang; the calls are over.
  listener.letGo();
  expect((await get()).status).toBe(404);
});
