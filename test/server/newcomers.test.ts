/**
 * Who makes room for a newcomer, one connection after the other. No limit of time is near: nothing else closes any.
 */
import { afterEach, describe, expect, test } from "vitest";
import { createOwnAddressOf } from "../../src/server/http/client-address.ts";
import { pageKey, startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";
import { callFrames, callText, framesIn, frameType, openRaw, type RawConnection } from "../support/clients/raw.ts";
import { hello, livezText } from "../support/clients/strangers.ts";

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});

const hourMs = 3_600_000;
async function listenWith(
  limits: NonNullable<ListenerOptions["limits"]>,
  options: ListenerOptions = {},
): Promise<void> {
  listener = await startListener({
    ...options,
    limits: { halfOpenMs: hourMs, strangerIdleMs: hourMs, idleMs: hourMs, newcomerMs: hourMs, ...limits },
    pageOf: (path) =>
      path === "/livez" ? { methods: ["GET"], answer: async () => ({ ok: true, value: page }) } : undefined,
  });
}
const page = { type: "text/plain", body: "yes" };

async function open(from: string, ...first: readonly (string | Uint8Array)[]): Promise<RawConnection> {
  const connection = await openRaw(listener.port, undefined, from);
  opened.push(connection);
  connection.write(...first);
  return connection;
}
const answered = (connection: RawConnection, pattern = /yes|STATE_PENDING/) =>
  connection.until((bytes) => (pattern.test(bytes.toString("latin1")) ? true : undefined));
async function ask(from: string): Promise<RawConnection> {
  const connection = await open(from, livezText);
  await answered(connection);
  return connection;
}
/** Resolves with the order in which connections were closed, so far. */
function closings(named: Record<string, RawConnection>): string[] {
  const order: string[] = [];
  for (const [name, { closed }] of Object.entries(named)) void closed.then(() => order.push(name));
  return order;
}
const big = "127.0.0.2";

describe("when there is no room at all", () => {
  test("the oldest idle connection of the address that has most makes it, and a request makes one young again", async () => {
    await listenWith({ connectionsMax: 4 });
    const [a, b, c] = [await ask(big), await ask(big), await ask(big)];
    const other = await ask("127.0.0.3");
    const order = closings({ a, b, c, other });
    a.write(livezText);
    await a.until((bytes) => (bytes.toString().split("yes").length > 2 ? true : undefined));
    await ask("127.0.0.4");
    await b.closed;
    expect(order).toEqual(["b"]);
    // Two each for big and the next: whoever of them goes, the third address does not.
    await ask("127.0.0.4");
    expect(listener.connections.count).toBe(4);
    expect(order).not.toContain("other");
  });

  test("an IPv6 network makes it as one, by however many addresses it has come", async () => {
    const peers: Record<string, string> = {
      "127.0.0.2": "2001:db8:1:2::1",
      "127.0.0.3": "2001:db8:1:2::2",
      "127.0.0.4": "2001:db8:1:2:ffff::7",
      "127.0.0.5": "2001:db8:1:3::1",
      "127.0.0.6": "2001:db8:1:4::1",
    };
    await listenWith({ connectionsMax: 5 }, { peerOf: (address) => peers[address] ?? address });
    const other = await ask("127.0.0.5");
    await ask("127.0.0.5");
    const [a, b, c] = [await ask("127.0.0.2"), await ask("127.0.0.3"), await ask("127.0.0.4")];
    const order = closings({ other, a, b, c });
    await ask("127.0.0.6");
    await Promise.race([other.closed, a.closed]);
    expect(order).toEqual(["a"]);
  });

  test("HTTP/2 is told to go, and which of its calls were not taken", async () => {
    await listenWith({ connectionsMax: 1 });
    const first = await open(big, ...hello, callFrames(listener.port, 1, pageKey));
    await answered(first);
    await ask("127.0.0.3");
    const frames = framesIn(await first.closed);
    const goaway = frames.find(({ type }) => type === frameType.goaway);
    expect(goaway?.payload).toEqual(Buffer.from([0, 0, 0, 1, 0, 0, 0, 0]));
  });

  test.each([
    ["HTTP/1", (key: string) => [callText(key)]],
    ["HTTP/2", (key: string) => [...hello, callFrames(listener.port, 1, key)]],
  ])("a stranger's call under way on %s is not cut, and its answer arrives", async (_, calling) => {
    await listenWith({ connectionsMax: 4 });
    listener.hang();
    const calls = [];
    for (let i = 0; i < 3; i += 1) calls.push(await open(big, ...calling(pageKey)));
    await listener.hanging(3);
    const idle = await ask(big);
    await ask("127.0.0.3");
    await idle.closed;
    // Now there is nobody left at that address who may go.
    const late = await open("127.0.0.4", livezText);
    expect(await late.closed).toHaveLength(0);
    listener.letGo();
    await Promise.all(calls.map((each) => answered(each)));
    expect(listener.calls).toMatchObject([{ status: 200 }, { status: 200 }, { status: 200 }]);
  });

  test("whoever has shown a secret key stays, and the next one is not taken once all have", async () => {
    await listenWith({ connectionsMax: 2 });
    const callers = [
      await open(big, callText(testKey)),
      await open(big, ...hello, callFrames(listener.port, 1, testKey)),
    ];
    await Promise.all(callers.map((each) => answered(each)));
    const refused = await open("127.0.0.3", livezText);
    expect(await refused.closed).toHaveLength(0);
    callers[0]?.write(callText(testKey));
    await callers[0]?.until((bytes) => (bytes.toString().split("STATE_PENDING").length > 2 ? true : undefined));
    expect(listener.calls).toHaveLength(3);
  });

  test("a key that everybody can read keeps nobody in", async () => {
    await listenWith({ connectionsMax: 2 });
    const visitor = await open(big, callText(pageKey));
    await answered(visitor);
    await answered(await open(big, callText(testKey)));
    await ask("127.0.0.3");
    await visitor.closed;
    expect(listener.connections.count).toBe(2);
  });
});

describe("while there still is some", () => {
  test("up to three quarters of all nobody goes", async () => {
    await listenWith({ connectionsMax: 16, newcomerMs: 0 });
    for (let i = 1; i <= 12; i += 1) {
      await ask(big);
      expect(listener.connections.count).toBe(i);
    }
  });

  test("above that the largest address gives one for each, unless it has few", async () => {
    await listenWith({ connectionsMax: 16, newcomerMs: 0 });
    const all = [];
    for (let i = 0; i < 12; i += 1) all.push(await ask(big));
    for (let i = 0; i < 4; i += 1) await ask("127.0.0.3");
    await Promise.all(all.slice(0, 4).map(({ closed }) => closed));
    expect(listener.connections.count).toBe(12);
    // Eight and four: a share that an address always has.
    for (let i = 0; i < 4; i += 1) await ask("127.0.0.3");
    expect(listener.connections.count).toBe(16);
  });

  test("newcomers have a moment to bring their keys: 200 behind one address come at once and are served", async () => {
    await listenWith({ connectionsMax: 220 });
    const all = await Promise.all(Array.from({ length: 200 }, () => open(big)));
    await listener.open(200);
    for (const each of all) each.write(callText(testKey));
    await Promise.all(all.map((each) => answered(each)));
    expect(listener.connections.count).toBe(200);
  });
});

test("one that has come by many addresses of its network is one", () => {
  const ownAddressOf = createOwnAddressOf([
    { address: "2001:db8:5::", bits: 48 },
    { address: "198.51.100.0", bits: 24 },
  ]);
  expect(ownAddressOf("2001:db8:1:2::1")).toBe(ownAddressOf("2001:db8:1:2:ffff::7"));
  expect(ownAddressOf("2001:db8:1:3::1")).not.toBe(ownAddressOf("2001:db8:1:2::1"));
  expect(ownAddressOf("::ffff:192.0.2.7")).toBe(ownAddressOf("192.0.2.7"));
  expect(["2001:db8:5:9::1", "198.51.100.7", "::ffff:198.51.100.7"].map(ownAddressOf)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(ownAddressOf(undefined)).toBe("unknown");
});
