/**
 * A provider's API as seen from outside, in a process of its own: MessageBird's over HTTPS, that of a declared gateway (form
 * in, JSON out) over HTTPS, or our webhook's receiver over HTTP. It does to each request what it is told, and tells its
 * parent of every request and of every message that it took.
 * Usage: provider.ts messagebird|declared <cert> <key> | provider.ts webhook
 */
import { readFileSync } from "node:fs";
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";

/** What is done to a request. The first four take the message, whatever they answer. */
export const behaviours = [
  "accept",
  "accept, no answer",
  "accept, 500",
  "accept, reset",
  "401",
  "402",
  "404",
  "405",
  "422 recipient",
  "422 originator",
  "429",
  "500",
  "500 without errors",
  "302",
  "200 without id",
  "200 no recipient",
  "bad JSON",
  "huge",
  "hang",
  "drip",
  "reset",
  // The last, for it is not called for half a minute then.
  "429 wait",
] as const;
export type Behaviour = (typeof behaviours)[number];

/** Word from the fake to its parent. */
export type Word =
  | { readonly kind: "port"; readonly port: number }
  | { readonly kind: "ordered" }
  | {
      readonly kind: "request";
      readonly behaviour: Behaviour;
      readonly reference: string;
      readonly took: boolean;
      /** The path that was asked for. */
      readonly path: string;
      readonly body: Record<string, unknown>;
      readonly headers: Record<string, unknown>;
    };

const [kind = "", certPath = "", keyPath = ""] = process.argv.slice(2);
let standing: Behaviour = "accept";
const script: Behaviour[] = [];
let count = 0;

process.on("message", (order: { standing?: Behaviour; script?: Behaviour[] }) => {
  if (order.standing !== undefined) {
    standing = order.standing;
    script.length = 0;
  }
  script.push(...(order.script ?? []));
  tell({ kind: "ordered" });
});
process.on("disconnect", () => process.exit());

const onRequest: RequestListener = (request, response) => void answer(request, response);
const server =
  kind === "messagebird" || kind === "declared"
    ? createHttpsServer({ cert: readFileSync(certPath), key: readFileSync(keyPath) }, onRequest)
    : createHttpServer(onRequest);
server.listen(0, "127.0.0.1", () => tell({ kind: "port", port: (server.address() as AddressInfo).port }));

function tell(word: Word): void {
  process.send?.(word);
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  if (request.url === "/balance") return json(response, 200, { payment: "prepaid", type: "credits", amount: 9.2 });
  const text = Buffer.concat(chunks).toString("utf8");
  const body = (kind === "declared" ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text)) as Record<
    string,
    unknown
  >;
  const behaviour = script.shift() ?? standing;
  const took = behaviour.startsWith("accept");
  tell({
    kind: "request",
    behaviour,
    reference: String(body["reference"]),
    took,
    path: String(request.url),
    body,
    headers: request.headers,
  });
  count += 1;
  act(behaviour, response, `m${count}`);
}

function act(behaviour: Behaviour, response: ServerResponse, id: string): void {
  const fault = (code: number, parameter: string) => ({ errors: [{ code, description: "no", parameter }] });
  type Own = Readonly<Record<"messagebird" | "webhook" | "declared", object>>;
  const by = (own: Own) => own[kind as keyof Own];
  const refuse = (own: Own) => json(response, 422, by(own));
  const taken = (message: string) =>
    by({
      messagebird: { id: message, recipients: { totalCount: 1, totalSentCount: 1 } },
      webhook: { id: message },
      declared: { result: "queued", message_id: message },
    });
  switch (behaviour) {
    case "accept":
      return json(response, 201, taken(id));
    case "accept, no answer":
    case "hang":
      return;
    case "accept, reset":
    case "reset":
      return void response.socket?.destroy();
    case "accept, 500":
    case "500":
      return json(response, 500, fault(99, "server"));
    case "500 without errors":
      return json(response, 500, { message: "boom" });
    case "401":
      return json(response, 401, fault(2, "access_key"));
    case "402":
      return json(response, 402, fault(25, "balance"));
    case "404":
      return json(response, 404, fault(20, "resource"));
    case "405":
      return json(response, 405, {}, { allow: "GET" });
    case "422 recipient":
      return refuse({
        messagebird: fault(9, "recipients"),
        webhook: { reason: "recipient" },
        declared: { error: "bad_number" },
      });
    case "422 originator":
      return refuse({
        messagebird: fault(10, "originator"),
        webhook: { reason: "content" },
        declared: { error: "bad_sender" },
      });
    case "429":
      return json(response, 429, {});
    case "429 wait":
      return json(response, 429, {}, { "retry-after": "30" });
    case "302":
      return json(response, 302, {}, { location: "https://127.0.0.1:1/" });
    case "200 without id":
      return json(response, 200, { recipients: { totalCount: 1 } });
    case "200 no recipient":
      return json(response, 200, { id, recipients: { totalCount: 0 } });
    case "bad JSON":
      response.writeHead(200);
      return void response.end("{");
    case "huge":
      response.writeHead(200);
      return void response.end("x".repeat(1_000_000));
    case "drip": {
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 50);
      return void response.once("close", () => clearInterval(timer));
    }
  }
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}
