/**
 * Requests written byte by byte, so that nothing corrects them on the way: HTTP/1.1 on a socket of its own each, HTTP/2
 * through sessions that are kept, and bytes that are no HTTP at all.
 */
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
}

/** What came back. */
export interface Response {
  /** Undefined when the connection ended without an answer. */
  readonly status: number | undefined;
  /** All header and trailer names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

const none: Response = { status: undefined, headers: new Map(), body: Buffer.alloc(0) };

/**
 * Writes bytes on a new connection, and reads what comes until the other side ends it. Where a request may be torn, and
 * the server rightly waits for the rest of it, the connection is ended from here a little later.
 */
export function writeRaw(port: number, bytes: Buffer, mayBeTorn: boolean): Promise<Response> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket: Socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const tearing = mayBeTorn ? setTimeout(() => socket.end(), 25) : undefined;
    socket.setTimeout(mayBeTorn ? 150 : 120_000, () => socket.destroy());
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("error", () => {});
    socket.on("end", () => socket.destroy());
    socket.on("close", () => {
      clearTimeout(tearing);
      resolve(parseResponse(Buffer.concat(chunks)));
    });
    socket.write(bytes);
  });
}

export function http1Bytes({ method, path, headers, body }: Request, version = "HTTP/1.1"): Buffer {
  const head = [`${method} ${path} ${version}`, ...headers.map(([name, value]) => `${name}: ${value}`), "", ""];
  return Buffer.concat([Buffer.from(head.join("\r\n"), "latin1"), body]);
}

function parseResponse(bytes: Buffer): Response {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return none;
  const [first = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1] ?? Number.NaN);
  const rest = bytes.subarray(headEnd + 4);
  if (status === 100) return parseResponse(rest);
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  return { status: Number.isNaN(status) ? undefined : status, headers, body: rest };
}

/** HTTP/2 sessions of one address, each used for so many requests. */
export class Http2Sessions {
  readonly #url: string;
  #session: ClientHttp2Session | undefined;
  #left = 0;

  constructor(url: string) {
    this.#url = url;
  }

  request({ method, path, headers, body }: Request): Promise<Response> {
    return new Promise((resolve) => {
      let status: number | undefined;
      const heard = new Map<string, string>();
      const chunks: Buffer[] = [];
      const hear = (fields: Record<string, unknown>) => {
        for (const [name, value] of Object.entries(fields)) heard.set(name, String(value));
      };
      try {
        const stream = this.#take().request({ ":method": method, ":path": path, ...joined(headers) });
        stream.on("response", (fields) => {
          status = fields[":status"];
          hear(fields);
        });
        stream.on("trailers", hear);
        stream.on("data", (chunk: Buffer) => chunks.push(chunk));
        stream.on("error", () => {});
        stream.on("close", () => resolve({ status, headers: heard, body: Buffer.concat(chunks) }));
        stream.setTimeout(10_000, () => stream.close());
        stream.end(body);
      } catch {
        // The client's own library refuses to write some headers: nothing was sent.
        resolve({ ...none, status: 400 });
      }
    });
  }

  #take(): ClientHttp2Session {
    this.#left -= 1;
    if (this.#session === undefined || this.#session.closed || this.#session.destroyed || this.#left <= 0) {
      this.#session?.close();
      const session = connectHttp2(this.#url);
      session.on("error", () => session.destroy());
      this.#session = session;
      this.#left = 200;
    }
    return this.#session;
  }

  end(): void {
    this.#session?.destroy();
  }
}

function joined(headers: Request["headers"]): Record<string, string | string[]> {
  const all: Record<string, string[]> = {};
  for (const [name, value] of headers) (all[name.toLowerCase()] ??= []).push(value);
  const single = (values: string[]) => (values.length === 1 ? (values[0] ?? "") : values);
  return Object.fromEntries(Object.entries(all).map(([name, values]) => [name, single(values)]));
}
