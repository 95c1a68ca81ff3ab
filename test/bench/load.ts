/**
 * The load: so many HTTP/1.1 connections, each with one call under way. Written on bare sockets, because a load generator
 * that costs more than the server measures itself.
 */
import { connect, createServer, type Socket } from "node:net";

/** One connection that carries one call at a time. */
export interface Client {
  post(path: string, body: string): Promise<{ status: number; body: string }>;
  close(): void;
}

export function openClient(port: number, key: string): Client {
  const socket: Socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let received = "";
  let answer: ((value: { status: number; body: string }) => void) | undefined;
  let fail: ((error: Error) => void) | undefined;
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    received += chunk;
    const head = received.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(received.slice(0, head))?.[1] ?? 0);
    if (received.length < head + 4 + length) return;
    const whole = { status: Number(received.slice(9, 12)), body: received.slice(head + 4, head + 4 + length) };
    received = received.slice(head + 4 + length);
    answer?.(whole);
  });
  socket.on("error", (error) => fail?.(error));
  socket.on("close", () => fail?.(new Error("the server closed the connection")));
  const common = `HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nauthorization: Bearer ${key}\r\ncontent-length: `;
  return {
    post(path, body) {
      return new Promise((resolve, reject) => {
        answer = resolve;
        fail = reject;
        socket.write(`POST ${path} ${common}${body.length}\r\n\r\n${body}`);
      });
    },
    close: () => socket.destroy(),
  };
}

/** Where the service's provider leaves the codes. */
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

/** Runs `work` on every client over and over until the time is up; resolves with how often it was done, and how long. */
export async function drive(clients: readonly Client[], durationMs: number, work: (client: Client) => Promise<void>) {
  const startMs = performance.now();
  const until = startMs + durationMs;
  let done = 0;
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() < until) {
        await work(client);
        done += 1;
      }
    }),
  );
  return { done, seconds: (performance.now() - startMs) / 1000 };
}
