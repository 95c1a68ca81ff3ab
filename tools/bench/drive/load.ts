/**
 * The load: lanes that each carry one cycle at a time, driven in a closed loop or at a fixed rate. HTTP/1.1 is written on
 * bare sockets, because a load generator that costs more than the server measures itself.
 */
import { connect, createServer, type Socket } from "node:net";

/** One connection that carries one call at a time. */
export interface Client {
  post(path: string, body: string, headers?: string): Promise<{ status: number; body: string }>;
  get(path: string): Promise<{ status: number; body: string }>;
  close(): void;
}

/** What one cycle took, in milliseconds: the send from the moment it was meant to start, the verify from its own. */
export interface Took {
  readonly sendMs: number;
  readonly verifyMs: number;
}

/** One place for a cycle under way. */
export interface Lane {
  /** Runs a cycle that was meant to start at `fromMs`, on the clock of `performance.now()`. */
  cycle(fromMs: number): Promise<Took>;
  close(): void;
}

export interface Driven {
  readonly done: number;
  readonly seconds: number;
  readonly sendMs: number[];
  readonly verifyMs: number[];
}

export function openClient(port: number, key: string): Client {
  const socket: Socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let received = "";
  let answer: ((value: { status: number; body: string }) => void) | undefined;
  let fail: ((error: Error) => void) | undefined;
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    received += chunk;
    const head = received.indexOf("\r\n\r\n") + 4;
    if (head < 4) return;
    const headers = received.slice(0, head);
    const length = Number(/content-length: (\d+)/i.exec(headers)?.[1] ?? 0);
    const isChunked = /transfer-encoding: chunked/i.test(headers);
    const end = isChunked ? received.indexOf("0\r\n\r\n", head) + 5 : head + length;
    if (received.length < end || end < head) return;
    const whole = { status: Number(received.slice(9, 12)), body: received.slice(head, end) };
    received = received.slice(end);
    answer?.(whole);
  });
  socket.on("error", (error) => fail?.(error));
  socket.on("close", () => fail?.(new Error("the server closed the connection")));
  const common = `HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: Bearer ${key}\r\n`;
  const ask = (text: string) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      answer = resolve;
      fail = reject;
      // What is written to a socket that is closed is lost without a word.
      if (socket.destroyed) reject(new Error("the server has closed the connection"));
      else socket.write(text);
    });
  return {
    post: (path, body, headers = "") =>
      ask(
        `POST ${path} ${common}${headers}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      ),
    get: (path) => ask(`GET ${path} ${common}\r\n`),
    close: () => socket.destroy(),
  };
}

/** Where servers leave the codes they send. */
export interface CodeBox {
  readonly path: string;
  /** Resolves with the code that was sent to a number. */
  codeFor(phone: string): Promise<string>;
  close(): void;
}

export function openCodeBox(path: string): Promise<CodeBox> {
  const codes = new Map<string, string>();
  const waiting = new Map<string, (code: string) => void>();
  const server = createServer((socket) => {
    let rest = "";
    socket.setEncoding("latin1");
    socket.on("error", () => {});
    socket.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const [phone = "", code = ""] = line.split(" ");
        const hear = waiting.get(phone);
        if (hear === undefined) codes.set(phone, code);
        else {
          waiting.delete(phone);
          hear(code);
        }
      }
    });
  });
  return new Promise((resolve) => {
    server.listen(path, () =>
      resolve({
        path,
        codeFor(phone) {
          const code = codes.get(phone);
          if (code === undefined) return new Promise((hear) => waiting.set(phone, hear));
          codes.delete(phone);
          return Promise.resolve(code);
        },
        close: () => server.close(),
      }),
    );
  });
}

/** Runs cycles on every lane, one after another, until the time is up. */
export async function driveClosed(lanes: readonly Lane[], durationMs: number): Promise<Driven> {
  const startMs = performance.now();
  const until = startMs + durationMs;
  const took: Took[] = [];
  await Promise.all(
    lanes.map(async (lane) => {
      for (let nowMs = startMs; nowMs < until; nowMs = performance.now()) took.push(await lane.cycle(nowMs));
    }),
  );
  return drivenSince(startMs, took);
}

/** A round is over when it has taken so many times as long as it was to: a server that does not keep up never catches up. */
const overdueMax = 2;
/** A timer may be so late; what is due sooner is waited for in turns of the event loop. */
const timerSlackMs = 3;

/**
 * Starts cycles at a fixed rate, evenly spaced, whether or not earlier ones are done. One that finds no free lane waits for
 * one, and its time runs from when it was meant to start; one that finds none until the round is over was done by nobody, and
 * has taken as long as that.
 */
export function driveOpen(lanes: readonly Lane[], perSecond: number, durationMs: number): Promise<Driven> {
  const gapMs = 1_000 / perSecond;
  const count = Math.max(1, Math.floor(durationMs / gapMs));
  const free = [...lanes];
  const waiting: number[] = [];
  const took: Took[] = [];
  const undone: number[] = [];
  const startMs = performance.now();
  const overMs = startMs + overdueMax * durationMs;
  let started = 0;
  return new Promise((resolve, reject) => {
    function begin(lane: Lane, fromMs: number): void {
      lane.cycle(fromMs).then((each) => {
        took.push(each);
        if (performance.now() > overMs) undone.push(...waiting.splice(0).map((meantMs) => overMs - meantMs));
        const next = waiting.shift();
        if (next === undefined) free.push(lane);
        else begin(lane, next);
        if (took.length + undone.length < count) return;
        const { sendMs, ...rest } = drivenSince(startMs, took);
        resolve({ ...rest, sendMs: [...sendMs, ...undone] });
      }, reject);
    }
    function onTurn(): void {
      const nowMs = performance.now();
      for (; started < count && startMs + started * gapMs <= nowMs; started += 1) {
        const lane = free.shift();
        if (lane === undefined) waiting.push(startMs + started * gapMs);
        else begin(lane, startMs + started * gapMs);
      }
      if (started === count) return;
      const waitMs = startMs + started * gapMs - nowMs;
      if (waitMs > 2 * timerSlackMs) setTimeout(onTurn, waitMs - timerSlackMs);
      else setImmediate(onTurn);
    }
    onTurn();
  });
}

function drivenSince(startMs: number, took: readonly Took[]): Driven {
  return {
    done: took.length,
    seconds: (performance.now() - startMs) / 1_000,
    sendMs: took.map(({ sendMs }) => sendMs),
    verifyMs: took.map(({ verifyMs }) => verifyMs),
  };
}
