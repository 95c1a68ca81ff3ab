/**
 * A server on the far end of a provider: it keeps what it is asked, and answers as the test told it to.
 */
import { once } from "node:events";
import { createServer as createHttp, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { createServer as createHttps } from "node:https";
import type { AddressInfo } from "node:net";
import { text as readText } from "node:stream/consumers";
import { freePort } from "../network/ports.ts";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** How one request is answered; the test writes to the response itself where it is a function. */
export type Reply =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: unknown }
  | ((response: ServerResponse, asked: Asked) => void);

export interface FarEnd {
  readonly url: string;
  readonly asked: Asked[];
  /** What is answered from now on. */
  reply: Reply;
  stop(): Promise<void>;
}

/** Starts one on a free port; with a certificate it speaks TLS. */
export async function startFarEnd(reply: Reply, tls?: { cert: string; key: string }): Promise<FarEnd> {
  const asked: Asked[] = [];
  const listener = (request: Parameters<Parameters<typeof createHttp>[1] & {}>[0], response: ServerResponse) => {
    void readText(request).then((body) => {
      const one = { method: request.method ?? "", path: request.url ?? "", headers: request.headers, body };
      asked.push(one);
      if (typeof farEnd.reply === "function") return farEnd.reply(response, one);
      const { status, headers = {}, body: answer } = farEnd.reply;
      const isText = typeof answer === "string" || answer === undefined;
      response.writeHead(status, isText ? headers : { "content-type": "application/json", ...headers });
      return response.end(isText ? answer : JSON.stringify(answer));
    });
  };
  const server = tls === undefined ? createHttp(listener) : createHttps(tls, listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const farEnd: FarEnd = {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    reply,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return farEnd;
}

/** Half an answer: its connection breaks off within the body. */
export function cutAnswer(status: number): Reply {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", "content-length": "100" });
    response.write('{"id":');
    setImmediate(() => response.socket?.resetAndDestroy());
  };
}

/** Replies that no provider's manual has, by what they do. */
export const oddReplies = {
  hang: (() => {}) as Reply,
  reset: ((response) => response.socket?.resetAndDestroy()) as Reply,
  cut: cutAnswer(200),
  /** Goes over to another protocol, in which nothing follows. */
  switched: ((response) =>
    response.socket?.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")) as Reply,
  switching: ((response) => response.socket?.write("HTTP/1.1 101 Switching Protocols\r\n\r\n")) as Reply,
  /** A status, and never a body. */
  dawdle: ((response) => response.writeHead(200, { "content-type": "application/json" }).flushHeaders()) as Reply,
  /** Without an end: whoever reads it all never comes back. */
  endless: ((response) => {
    response.writeHead(200, { "content-type": "application/json" });
    const more = () => {
      while (!response.destroyed && response.write('{"id":"'.padEnd(16_384, "x")));
    };
    response.on("drain", more);
    more();
  }) as Reply,
} as const;

/** An origin at which nobody listens. */
export async function deadOrigin(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}`;
}
