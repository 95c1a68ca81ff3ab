/**
 * Whose turn it is, counted in turns: connections whose reads a test makes by itself, in the order in which they were told to go
 * on, as the system does.
 */
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createConnection, type Connection } from "../../src/server/listener/connection.ts";
import { createPace, type Clock, type Pace } from "../../src/server/listener/pace.ts";

/** What the listener's peers do when they are read from. */
type Read = (pace: Pace, connection: Connection) => void;

const handshakeCost = 32_768;
const isAsking: Read = (pace, connection) => {
  for (let i = 0; i < 64; i += 1) pace.asked(connection, 0);
};
const isShaking: Read = (pace, connection) => pace.cost(connection, handshakeCost);

/** A loop of events with connections of one address, in which no time passes unless a clock is given. */
function createLoop(clock: Clock = createClock()) {
  const pace = createPace(clock);
  /** In the order in which they were told to go on. */
  const readable = new Map<Connection, Read>();
  const reads = new Map<Connection, number>();

  function open(onRead: Read, address = "192.0.2.1"): Connection {
    const socket = { destroyed: false, bytesRead: 0 };
    const connection = createConnection(socket as Socket, undefined, address, 0, 0);
    connection.session = {} as ServerHttp2Session;
    const read: Read = (...what) => {
      socket.bytesRead += 1;
      reads.set(connection, (reads.get(connection) ?? 0) + 1);
      onRead(...what);
    };
    const handle = { readStart: () => readable.set(connection, read), readStop: () => readable.delete(connection) };
    Object.assign(socket, { _handle: handle });
    readable.set(connection, read);
    pace.taken();
    pace.opened(connection);
    return connection;
  }

  return {
    open,
    pace,
    close(connection: Connection) {
      pace.letGo(connection);
      readable.delete(connection);
    },
    /** Goes through a turn, with what may come of each in it. */
    async turn(): Promise<void> {
      for (const [connection, read] of readable) read(pace, connection);
      await nextTurn();
    },
    /** How many were told to go on and are not told to stop yet. */
    goingOn: () => readable.size,
    readsOf: (connection: Connection) => reads.get(connection) ?? 0,
  };
}

type Loop = ReturnType<typeof createLoop>;

async function turnsUntil(loop: Loop, isDone: () => boolean, turnsMax: number, each = () => {}): Promise<number> {
  let turns = 0;
  for (; !isDone() && turns < turnsMax; turns += 1) {
    each();
    await loop.turn();
  }
  return turns;
}

test("a handshake and a first request of whoever comes anew take a few turns, whoever of the address has asked before", async () => {
  const loop = createLoop();
  const crowd = Array.from({ length: 200 }, () => loop.open(isAsking));
  await turnsUntil(loop, () => crowd.every((each) => loop.readsOf(each) > 0), 2_000);
  let reads = 0;
  const newcomer = loop.open((pace, connection) => {
    reads += 1;
    if (reads < 3) pace.cost(connection, handshakeCost);
    else pace.asked(connection, 0);
  });
  const turns = await turnsUntil(loop, () => loop.readsOf(newcomer) === 3, 1_000);
  expect(turns).toBeLessThanOrEqual(10);
});

test("whoever only opens connections leaves the others of his address every second turn", async () => {
  const loop = createLoop();
  const crowd = Array.from({ length: 10 }, () => loop.open(isAsking));
  await turnsUntil(loop, () => crowd.every((each) => loop.readsOf(each) > 0), 100);
  const readsOfAll = () => crowd.reduce((sum, each) => sum + loop.readsOf(each), 0);
  for (let i = 0; i < 500; i += 1) loop.open(isShaking);
  const before = readsOfAll();
  await turnsUntil(loop, () => false, 15 + 40);
  expect(readsOfAll() - before).toBeGreaterThanOrEqual(20);
});

test("whoever sends without ever asking is a newcomer for eight turns, and no more", async () => {
  const loop = createLoop();
  const crowd = Array.from({ length: 100 }, () => loop.open(isShaking));
  await turnsUntil(loop, () => crowd.every((each) => loop.readsOf(each) > 20), 3_000);
  const newcomer = loop.open(isShaking);
  expect(await turnsUntil(loop, () => loop.readsOf(newcomer) === 3, 1_000)).toBeLessThanOrEqual(10);
});

/** Takes a connection a turn, as the system hands them over, until all are taken. */
async function takeAll(loop: Loop, count: number, onRead: Read): Promise<void> {
  for (let taken = 0; taken < count; taken += 1) {
    loop.open(onRead);
    await loop.turn();
  }
}

test("connections that wait to be taken are not kept waiting by what those that were taken ask for", async () => {
  const loop = createLoop();
  let asked = 0;
  const asksOnce: Read = (pace, connection) => {
    if (loop.readsOf(connection) > 1) return;
    asked += 16;
    for (let i = 0; i < 16; i += 1) pace.asked(connection, 0);
  };
  await takeAll(loop, 160, asksOnce);
  // 16 turns take as many, and one of them has a turn's bound and what one connection may bring on top.
  expect(asked).toBeLessThanOrEqual((160 / 16) * (64 + 16));
  const newcomer = loop.open((pace, connection) => pace.asked(connection, 0), "192.0.2.2");
  expect(await turnsUntil(loop, () => loop.readsOf(newcomer) > 0, 1_000)).toBeLessThanOrEqual(4);
});

test("nor by others who ask for somewhat less than makes a turn too long", async () => {
  const loop = createLoop();
  let asked = 0;
  const asksForOne: Read = (pace, connection) => {
    asked += 1;
    pace.asked(connection, 0);
  };
  const crowd = Array.from({ length: 60 }, () => loop.open(asksForOne));
  await turnsUntil(loop, () => crowd.every((each) => loop.readsOf(each) > 2), 1_000);
  asked = 0;
  await takeAll(loop, 160, () => {});
  expect(asked).toBeLessThanOrEqual((160 / 16 + 1) * 64);
  // Once all are taken nobody is kept from asking.
  const before = crowd.map((each) => loop.readsOf(each));
  const isReadAgain = () => crowd.every((each, i) => loop.readsOf(each) > (before[i] ?? 0));
  expect(await turnsUntil(loop, isReadAgain, 1_000)).toBeLessThanOrEqual(20);
});

test("nor are they while clients come who are gone already", async () => {
  const loop = createLoop();
  let asked = 0;
  const asksAgainAndAgain: Read = (pace, connection) => {
    asked += 16;
    for (let i = 0; i < 16; i += 1) pace.asked(connection, 0);
  };
  for (let i = 0; i < 40; i += 1) loop.open(asksAgainAndAgain);
  await loop.turn();
  asked = 0;
  for (let taken = 0; taken < 160; taken += 1) {
    loop.pace.taken();
    await loop.turn();
  }
  expect(asked).toBeGreaterThan(0);
  expect(asked).toBeLessThanOrEqual((160 / 16) * (64 + 16));
});

test("of 4,000 who ask no more are told to go on than a turn has room for: the others would be stopped unread, behind all", async () => {
  const loop = createLoop();
  for (let i = 0; i < 4_000; i += 1) loop.open((pace, connection) => pace.asked(connection, 0));
  let most = 0;
  for (let turn = 0; turn < 200; turn += 1) {
    await loop.turn();
    most = Math.max(most, loop.goingOn());
  }
  expect(most).toBeGreaterThan(64);
  // This loop leaves time for two turns.
  expect(most).toBeLessThanOrEqual(2 * 64);
});

test("connections that come as fast as others were answered wait here, by their addresses, and not in the system's one line", async () => {
  const loop = createLoop();
  let waiting = 300;
  const asksAndIsFollowed: Read = (pace, connection) => {
    pace.asked(connection, 0);
    loop.close(connection);
    waiting += 1;
  };
  const takeOne = () => {
    if (waiting === 0) return;
    waiting -= 1;
    loop.open(asksAndIsFollowed);
  };
  const asksOnce: Read = (pace, connection) => pace.asked(connection, 0);
  await turnsUntil(loop, () => waiting < 200, 1_000, takeOne);
  const neighbour = loop.open(asksOnce);
  await turnsUntil(loop, () => waiting < 10, 1_000, takeOne);
  expect(waiting).toBeLessThan(10);
  const newcomer = loop.open(asksOnce, "192.0.2.2");
  expect(await turnsUntil(loop, () => loop.readsOf(newcomer) > 0, 1_000, takeOne)).toBeLessThanOrEqual(40);
  // And of their own address nobody is passed over for as long as others come.
  expect(await turnsUntil(loop, () => loop.readsOf(neighbour) > 0, 5_000, takeOne)).toBeLessThanOrEqual(2_500);
});

test.each([
  ["one address", () => "192.0.2.1"],
  ["500 networks of one that has 48 bits", (i: number) => `2001:db8:1:${(i % 500).toString(16)}::/64`],
])(
  "beside newcomers of %s who use up each turn that they have, those of another address come by sixteens",
  async (_, of) => {
    const loop = createLoop();
    let opened = 0;
    const usesUpATurn: Read = (pace, connection) => {
      isAsking(pace, connection);
      loop.close(connection);
      openOne();
    };
    const openOne = () => loop.open(usesUpATurn, of(opened++));
    for (let i = 0; i < 500; i += 1) openOne();
    await turnsUntil(loop, () => false, 100);
    const asksOnce: Read = (pace, connection) => pace.asked(connection, 0);
    const callers = Array.from({ length: 30 }, () => loop.open(asksOnce, "192.0.2.2"));
    const turns = await turnsUntil(loop, () => callers.every((each) => loop.readsOf(each) > 0), 2_000);
    // One of them in each turn that is anybody's would take 90 turns, and three 30.
    expect(turns).toBeLessThanOrEqual(10);
  },
);

/** A clock on which what is read takes its time, and a turn a millisecond beside. */
function createClock() {
  let ms = 0;
  let due: { readonly atMs: number; readonly act: () => void } | undefined;
  return {
    nowMs: () => ms,
    after(inMs: number, act: () => void) {
      due = { atMs: ms + inMs, act };
      return () => (due = undefined);
    },
    pass(passedMs: number) {
      ms += passedMs;
      if (due === undefined || due.atMs > ms) return;
      const { act } = due;
      due = undefined;
      act();
    },
  };
}

const askingMs = 20;
const turnMs = 1;

/** A loop in which it takes 20 ms to answer what one connection asks for, and how much of the time goes to that. */
function createTimedLoop() {
  const clock = createClock();
  const loop = createLoop(clock);
  let askedMs = 0;
  const asks: Read = (...what) => {
    isAsking(...what);
    clock.pass(askingMs);
    askedMs += askingMs;
  };
  const passTurn = () => clock.pass(turnMs);
  return {
    ...loop,
    asks,
    nowMs: clock.nowMs,
    askedMs: () => askedMs,
    turns: (isDone: () => boolean, turnsMax: number, each = () => {}) =>
      turnsUntil(loop, isDone, turnsMax, () => {
        each();
        passTurn();
      }),
    async shareOfAsking(turns: number): Promise<number> {
      const [beganMs, before] = [clock.nowMs(), askedMs];
      await turnsUntil(loop, () => false, turns, passTurn);
      return (askedMs - before) / (clock.nowMs() - beganMs);
    },
  };
}

test.each([4, 20])(
  "while a call with a key is under way strangers of %d addresses have half of the time, and else all",
  async (addresses) => {
    const { open, asks, pace, shareOfAsking } = createTimedLoop();
    for (let i = 0; i < 20; i += 1) open(asks, `192.0.2.${i % addresses}`);
    expect(await shareOfAsking(400)).toBeGreaterThan(0.8);
    pace.callsBegan(2);
    const share = await shareOfAsking(2_000);
    expect(share).toBeGreaterThan(0.4);
    expect(share).toBeLessThan(0.55);
    pace.callEnded();
    expect(await shareOfAsking(2_000)).toBeLessThan(0.55);
    pace.callEnded();
    expect(await shareOfAsking(400)).toBeGreaterThan(0.8);
  },
);

test("a new connection has its turn while strangers rest", async () => {
  const { open, asks, pace, readsOf, turns, nowMs } = createTimedLoop();
  for (let i = 0; i < 20; i += 1) open(asks);
  pace.callsBegan(1);
  await turns(() => false, 500);
  const mostMs: number[] = [];
  for (let i = 0; i < 50; i += 1) {
    const beganMs = nowMs();
    const newcomer = open((its, connection) => its.asked(connection, 0));
    await turns(() => readsOf(newcomer) > 0, 100);
    mostMs.push(nowMs() - beganMs);
  }
  // Those who ask for a lot come before it once at most, and never with the rest that they have to keep.
  expect(Math.max(...mostMs)).toBeLessThan(askingMs + 10);
});

test("who opens connections to ask at once for a lot rests as well", async () => {
  const { open, asks, pace, close, shareOfAsking } = createTimedLoop();
  for (let i = 0; i < 20; i += 1) open(asks);
  pace.callsBegan(1);
  const asksAndIsFollowed: Read = (its, connection) => {
    asks(its, connection);
    close(connection);
    open(asksAndIsFollowed);
  };
  for (let i = 0; i < 20; i += 1) open(asksAndIsFollowed);
  expect(await shareOfAsking(3_000)).toBeLessThan(0.7);
});

test("while connections wait to be taken, a sixth of the time goes to reading at most", async () => {
  const { open, asks, turns, nowMs, askedMs } = createTimedLoop();
  const takeOne = () => void open(asks);
  await turns(() => false, 200, takeOne);
  const [beganMs, before] = [nowMs(), askedMs()];
  await turns(() => false, 2_000, takeOne);
  const share = (askedMs() - before) / (nowMs() - beganMs);
  expect(share).toBeLessThan(1 / 5);
  expect(share).toBeGreaterThan(1 / 10);
});

test("while connections are taken, 1,000 of as many addresses are read from again by hundreds beside one that uses up each turn", async () => {
  const loop = createLoop();
  const asksOnce: Read = (pace, connection) => void (loop.readsOf(connection) > 1 || pace.asked(connection, 0));
  const others = Array.from({ length: 1_000 }, (_, i) => loop.open(asksOnce, `2001:db8:${i.toString(16)}::/64`));
  await turnsUntil(loop, () => others.every((each) => loop.readsOf(each) > 0), 1_000);
  for (let i = 0; i < 20; i += 1) loop.open(isAsking);
  await turnsUntil(loop, () => false, 50);
  const before = others.map((each) => loop.readsOf(each));
  const areReadAgain = () => others.every((each, i) => loop.readsOf(each) > (before[i] ?? 0));
  const takeOne = () => void loop.open(isAsking);
  // In each turn that reads, be it of newcomers, of which each comes behind fifteen.
  expect(await turnsUntil(loop, areReadAgain, 2_000, takeOne)).toBeLessThanOrEqual(5 * 16);
});

test("whoever begins something for strangers learns that connections are taken", async () => {
  const loop = createLoop();
  for (let i = 0; i < 20; i += 1) loop.open(isAsking);
  let turnsTaking = 0;
  const takeOne = () => {
    loop.open(isAsking);
    if (loop.pace.isTaking()) turnsTaking += 1;
  };
  await turnsUntil(loop, () => false, 160, takeOne);
  expect(turnsTaking).toBe(150);
  await turnsUntil(loop, () => false, 2);
  expect(loop.pace.isTaking()).toBe(false);
});
