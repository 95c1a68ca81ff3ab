/**
 * The door: a crowd without a key, with wrong keys or with a page's copied key keeps nobody else from being let in, and
 * whoever leaves the most undone gives it to a newcomer.
 */
import { afterEach, describe, expect, test } from "vitest";
import { refuse } from "../../src/otp/reason.ts";
import { createDoor, type Looked, type Waiting } from "../../src/server/rpc/door.ts";
import type { Page } from "../../src/server/pages/pages.ts";
import {
  callFrames,
  flag,
  frame,
  framesIn,
  frameType,
  headerBlock,
  openRaw,
  preface,
  settings,
  type Frame,
  type RawConnection,
} from "../support/clients/raw.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { pageKey, startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";

const report: Page = {
  methods: ["POST"],
  acts: true,
  answer: async ({ body }) =>
    body.length === 2 ? { ok: true, value: { type: "text/plain", body: "taken" } } : refuse("API_KEY_INVALID"),
};

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});
const listenWith = async (options: ListenerOptions) => {
  listener = await startListener({ pageOf: (path) => (path === "/report" ? report : undefined), ...options });
};

async function open(from: string, ...first: (string | Uint8Array)[]): Promise<RawConnection> {
  const connection = await openRaw(listener.port, undefined, from);
  opened.push(connection);
  connection.write(...first);
  return connection;
}

const hello = [preface, settings()];
/** Nothing of any answer's body may be sent. */
const shut = [preface, settings([4, 0])];
const streams = (count: number) => Array.from({ length: count }, (_, i) => 2 * i + 1);
const heads = (method: string, path: string, more: Record<string, string>, isEnd: boolean) => {
  const block = headerBlock({ ":method": method, ":scheme": "http", ":path": path, ":authority": "otpd", ...more });
  return (stream: number) => frame(frameType.headers, flag.endHeaders | (isEnd ? flag.endStream : 0), stream, block);
};
const getPath = `/v1/otp/${"A".repeat(22)}`;
const gets = (key: string | undefined) =>
  heads("GET", getPath, key === undefined ? {} : { authorization: `Bearer ${key}` }, true);
const found = (connection: RawConnection, count: number, wanted: (frame: Frame) => boolean) =>
  connection.until((bytes) => {
    const all = framesIn(bytes).filter(wanted);
    return all.length >= count ? all : undefined;
  });
const isEnd = ({ type, flags }: Frame) => type === frameType.data && (flags & flag.endStream) !== 0;
const isHead = ({ type }: Frame) => type === frameType.headers;
const reasonsIn = (connection: RawConnection) =>
  framesIn(Buffer.from(connection.text(), "latin1"))
    .filter(({ type }) => type === frameType.data)
    .map(
      ({ stream, payload }) =>
        [stream, (JSON.parse(payload.toString() || "{}") as { reason?: string }).reason] as const,
    )
    .filter(([, reason]) => reason !== undefined);
const from = async (address: string, method: string, path: string, key: string | undefined, body?: string) => {
  const headers = {
    "content-type": "application/json",
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  };
  const more = body === undefined ? {} : { body };
  return overHttp1(listener.url, { method, path, headers, from: address, ...more });
};

describe("60 calls in one write, before an honest one on the same connection, at four places", () => {
  /** As of a proxy: it has brought a valid key, so nobody takes it for a stranger's. */
  async function crowd(key: string | undefined) {
    await listenWith({ callsMax: 4 });
    const connection = await open("127.0.0.2", ...hello, callFrames(listener.port, 1, testKey));
    await found(connection, 1, isHead);
    const all = streams(61).slice(1).map(gets(key));
    // In one piece: nothing of it is begun before all of it is here.
    connection.write(Buffer.concat([...all, callFrames(listener.port, 201, testKey)]));
    await found(connection, 62, isEnd);
    const honest = framesIn(Buffer.from(connection.text(), "latin1")).filter(({ stream }) => stream === 201);
    expect(honest.map(({ payload }) => payload.toString()).join("")).toContain("STATE_PENDING");
    return reasonsIn(connection);
  }

  test("without a key are told so, and take nothing", async () => {
    const reasons = await crowd(undefined);
    expect(new Set(reasons.map(([, reason]) => reason))).toEqual(new Set(["API_KEY_MISSING"]));
    expect(reasons).toHaveLength(60);
  });

  test("with a wrong key take no place, and a known key goes before them", async () => {
    const reasons = await crowd("wrong");
    expect(new Set(reasons.map(([, reason]) => reason))).toEqual(new Set(["API_KEY_INVALID", "STORE_UNAVAILABLE"]));
    expect(reasons).toHaveLength(60);
  });
});

describe("calls that wait for their key to be looked at", () => {
  const limits = { perTurn: 4, looksMax: 4, knownLooksMax: 8, waitingMax: 8 };
  const other = (address: string | undefined) => (): Waiting => ({ isKnown: false, address });
  const known = (): Waiting => ({ isKnown: true });
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  /** A door whose looks are all taken, and how to end one. */
  async function openDoor() {
    const door = createDoor(limits);
    const looks: Looked[] = [];
    const letIn: string[] = [];
    const enter = (name: string, waiting: () => Waiting) => {
      const entered = door.enter(waiting);
      if (typeof entered === "function") {
        looks.push(entered);
        return;
      }
      void entered.then((looked) => {
        letIn.push(looked === undefined ? `no room: ${name}` : name);
        if (looked !== undefined && name !== "known") looks.push(looked);
      });
    };
    for (let i = 0; i < 4; i += 1) enter("first", other("a"));
    await turn();
    await turn();
    return { enter, letIn, lookOne: async () => (looks.shift()?.(), await turn(), await turn()) };
  }

  test("wait for as long as nothing is to be begun, also the first of them", async () => {
    let isPutOff = true;
    const door = createDoor(limits, () => isPutOff);
    const letIn: string[] = [];
    for (const name of ["first", "second"]) void Promise.resolve(door.enter(other("a"))).then(() => letIn.push(name));
    for (let i = 0; i < 5; i += 1) await turn();
    expect(letIn).toEqual([]);
    isPutOff = false;
    await turn();
    await turn();
    expect(letIn).toEqual(["first", "second"]);
  });

  test("take turns by their address, and a known caller waits for none of them", async () => {
    const { enter, letIn, lookOne } = await openDoor();
    for (let i = 0; i < 5; i += 1) enter("crowd", other("a"));
    enter("neighbour", other("b"));
    enter("shared", other(undefined));
    enter("known", known);
    await turn();
    await turn();
    expect(letIn.splice(0)).toEqual(["known"]);
    for (let i = 0; i < 4; i += 1) await lookOne();
    expect(letIn).toEqual(["crowd", "neighbour", "shared", "crowd"]);
    for (let i = 0; i < 3; i += 1) await lookOne();
    expect(letIn).toHaveLength(7);
  });

  test("are sent away from the largest crowd, where too many wait", async () => {
    const { enter, letIn, lookOne } = await openDoor();
    for (let i = 0; i < 8; i += 1) enter("crowd", other("a"));
    enter("neighbour", other("b"));
    enter("one too many", other("a"));
    await turn();
    expect(letIn.splice(0)).toEqual(["no room: crowd", "no room: one too many"]);
    for (let i = 0; i < 8; i += 1) await lookOne();
    expect(letIn).toEqual(["crowd", "neighbour", ...Array.from({ length: 6 }, () => "crowd")]);
  });

  test("of one address are sent away from the connection that has the most, and none that has as few as the newcomer", async () => {
    const { enter, letIn, lookOne } = await openDoor();
    const [crowd, caller] = [{}, {}];
    const of = (connection: object) => (): Waiting => ({ isKnown: false, address: "a", connection });
    for (let i = 0; i < 7; i += 1) enter("crowd", of(crowd));
    for (const name of ["caller", "caller's second"]) enter(name, of(caller));
    enter("one too many", of(crowd));
    await turn();
    expect(letIn.splice(0)).toEqual(["no room: crowd", "no room: one too many"]);
    for (let i = 0; i < 8; i += 1) await lookOne();
    expect(letIn).toEqual([...Array.from({ length: 6 }, () => "crowd"), "caller", "caller's second"]);
    for (let i = 0; i < 8; i += 1) enter(`${i}`, of({}));
    enter("newcomer", of({}));
    await turn();
    expect(letIn.at(-1)).toBe("no room: newcomer");
  });

  test("are none of an address whose last one was sent away", async () => {
    const { enter, letIn, lookOne } = await openDoor();
    for (let i = 0; i < 8; i += 1) enter(`${i}`, other(`address ${i}`));
    enter("newcomer", other("another"));
    for (let i = 0; i < 8; i += 1) await lookOne();
    expect(letIn.toSorted()).toEqual(["1", "2", "3", "4", "5", "6", "7", "newcomer", "no room: 0"]);
  });

  test("leave a quarter of each turn to others, however many are known", async () => {
    const door = createDoor({ ...limits, knownLooksMax: 100, waitingMax: 100 });
    const order: string[] = [];
    for (let i = 0; i < 4; i += 1) (door.enter(known) as Looked)();
    for (let i = 0; i < 8; i += 1) void (door.enter(known) as Promise<unknown>).then(() => order.push("known"));
    void (door.enter(other("b")) as Promise<unknown>).then(() => order.push("other"));
    await turn();
    expect(order).toEqual(["known", "known", "known", "other"]);
  });
});

test("64 unfinished reports of eight addresses give their oldest to the next", async () => {
  await listenWith({});
  const unfinished = streams(8).map(heads("POST", "/report", {}, false));
  const crowd: RawConnection[] = [];
  for (let i = 2; i < 10; i += 1) {
    const ping = frame(frameType.ping, 0, 0, Buffer.alloc(8));
    const connection = await open(`127.0.0.${i}`, ...hello, ...unfinished, ping);
    await found(connection, 1, ({ type, flags }) => type === frameType.ping && flags === flag.ack);
    crowd.push(connection);
  }
  expect((await from("127.0.0.1", "POST", "/report", undefined, "{}")).text).toBe("taken");
  const [oldest] = crowd;
  const resets = await found(oldest as RawConnection, 1, ({ type }) => type === frameType.reset);
  expect(resets.map(({ stream }) => stream)).toEqual([1]);
});

describe("a page's calls, when all of them are taken", () => {
  test("give the oldest answer that nobody takes, of whoever has the most, to a visitor", async () => {
    await listenWith({ callsMax: 16 });
    const first = await open("127.0.0.2", ...shut, ...streams(5).map(gets(pageKey)));
    await found(first, 5, isHead);
    const second = await open("127.0.0.3", ...shut, ...streams(3).map(gets(pageKey)));
    await found(second, 3, isHead);
    expect((await from("127.0.0.1", "GET", getPath, pageKey)).status).toBe(404);
    const resets = await found(first, 1, ({ type }) => type === frameType.reset);
    expect(resets.map(({ stream }) => stream)).toEqual([1]);
    expect(framesIn(Buffer.from(second.text(), "latin1")).filter(({ type }) => type === frameType.reset)).toEqual([]);
  });

  test("keep what is being worked on", async () => {
    await listenWith({ callsMax: 16 });
    listener.hang();
    const busy = await open("127.0.0.2", ...hello, ...streams(8).map(gets(pageKey)));
    await listener.hanging(8);
    expect((await from("127.0.0.1", "GET", getPath, pageKey)).text).toContain("STORE_UNAVAILABLE");
    listener.letGo();
    await found(busy, 8, isEnd);
    expect(reasonsIn(busy).map(([, reason]) => reason)).toEqual(Array.from({ length: 8 }, () => "REQUEST_NOT_FOUND"));
  });
});
