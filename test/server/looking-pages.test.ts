/**
 * Pages that look up what anybody may bring, as the console's sign-in does: a few at a time, addresses in turn, and never in
 * the place of a call.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import { ok } from "../../src/otp/reason.ts";
import type { ConsoleOptions } from "../../src/server/admin/console-cookie.ts";
import { createConsole } from "../../src/server/admin/console.ts";
import type { Page } from "../../src/server/pages/pages.ts";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";
import { flag, frame, frameType, headerBlock, openRaw, preface, settings } from "../support/clients/raw.ts";
import { overHttp1 } from "../support/clients/wire.ts";

const stranger = "127.0.0.2";
const looksMax = 64;
const crowdSize = 120;

/** Look-ups that were begun, by who brought what is looked up. */
let looks: { readonly by: string; end(): void }[];
let onLook: () => void;
beforeEach(() => {
  looks = [];
  onLook = () => {};
});

const shown: Page = {
  methods: ["GET", "POST"],
  looks: true,
  async answer({ headers }) {
    const { promise, resolve } = Promise.withResolvers<void>();
    looks.push({ by: String(headers["x-by"]), end: resolve });
    onLook();
    await promise;
    return ok({ type: "text/plain", body: "nobody" });
  },
};

const pageOf = (path: string) => (path === "/session" ? shown : undefined);

/** Resolves once so many look-ups of somebody were begun. */
function looked(by: string, count: number): Promise<void> {
  return new Promise((resolve) => {
    onLook = () => looks.filter((look) => look.by === by).length >= count && resolve();
    onLook();
  });
}

const ask = (listener: Listener, method: string, by: string, from: string) =>
  overHttp1(listener.url, { method, path: "/session", headers: { "x-by": by }, from, ...bodyOf(method) });
const bodyOf = (method: string) => (method === "POST" ? { body: "{}" } : {});

const headersTo = (path: string) =>
  headerBlock({ ":method": "GET", ":scheme": "http", ":path": path, ":authority": "otpd", "x-by": "crowd" });

/** A call with a key that is known, by whose status one sees whether there is a place. */
async function callStatus(listener: Listener): Promise<number> {
  const headers = { authorization: `Bearer ${testKey}` };
  return (await overHttp1(listener.url, { method: "GET", path: `/v1/otp/${"A".repeat(22)}`, headers })).status;
}

function endAll(): void {
  onLook = () => looks.at(-1)?.end();
  for (const { end } of looks) end();
}

test("beside a crowd of one address, of which a few are looked up at once, the next address has its turn", async () => {
  const waitingMax = 16;
  const listener = await startListener({ pageOf, callsMax: waitingMax });
  const crowd: ReturnType<typeof ask>[] = [];
  const come = (count: number) => {
    for (let i = 0; i < count; i += 1) crowd.push(ask(listener, "GET", "stranger", stranger));
  };
  // As many as are begun in a turn, and so many more in another.
  for (const count of [looksMax / 2, looksMax]) {
    come(looksMax / 2);
    await looked("stranger", count);
    await nextTurn();
  }
  come(crowdSize - looksMax);
  await listener.answered(crowdSize - looksMax - waitingMax);
  expect(looks).toHaveLength(looksMax);
  const own = ask(listener, "GET", "owner", "127.0.0.1");
  // The stranger's last has made room.
  await listener.answered(crowdSize + 1 - looksMax - waitingMax);
  for (const { end } of looks.slice(0, 2)) end();
  await looked("owner", 1);
  expect(looks).toHaveLength(looksMax + 2);
  endAll();
  expect((await own).status).toBe(200);
  const statuses = (await Promise.all(crowd)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 503)).toHaveLength(crowdSize + 1 - looksMax - waitingMax);
  await listener.stop();
});

test("beside a connection that asks for as many as may wait, its address's next connection has its turn too", async () => {
  const listener = await startListener({ pageOf, callsMax: 16 });
  const crowd = await openRaw(listener.port);
  let streams = 0;
  const asking = () =>
    frame(frameType.headers, flag.endHeaders | flag.endStream, 2 * streams++ + 1, headersTo("/session"));
  const askFor = (count: number) => crowd.write(...Array.from({ length: count }, asking));
  crowd.write(preface, settings());
  // As many as are begun in a turn, and so many more in another.
  askFor(looksMax / 2);
  await looked("crowd", looksMax / 2);
  await nextTurn();
  askFor(looksMax / 2);
  await looked("crowd", looksMax);
  // 16 of these wait.
  askFor(24);
  await listener.answered(8);
  const own = ask(listener, "GET", "owner", "127.0.0.1");
  // The crowd's last has made room.
  await listener.answered(9);
  endAll();
  expect((await own).status).toBe(200);
  crowd.destroy();
  await listener.stop();
});

test.each(["GET", "POST"])("what is looked up by %s takes no place of a call", async (method) => {
  const callsMax = 4;
  const listener = await startListener({ pageOf, callsMax });
  const crowd = Array.from({ length: callsMax }, () => ask(listener, method, "stranger", stranger));
  await looked("stranger", callsMax);
  expect(await callStatus(listener)).toBe(404);
  endAll();
  expect((await Promise.all(crowd)).map(({ status }) => status)).toEqual(crowd.map(() => 200));
  await listener.stop();
});

test("the console's pages of sessions look up what anybody may bring", () => {
  const pages = [...createConsole({} as ConsoleOptions)].filter(([path]) => path.startsWith("/console/session"));
  expect(pages.map(([path, { looks: isLooking }]) => [path, isLooking])).toEqual([
    ["/console/session", true],
    ["/console/session/end", true],
    ["/console/session/end-all", true],
  ]);
});
