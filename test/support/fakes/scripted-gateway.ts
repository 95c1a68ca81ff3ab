/**
 * A gateway over HTTPS in a process of its own: it answers each request with what its parent has told it, and tells its parent
 * what it was asked. Usage: scripted-gateway.ts <cert> <key>
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface ScriptedReply {
  readonly status: number;
  readonly headers?: Record<string, string>;
  /** Written as it is where it is a text, else as JSON. */
  readonly body?: unknown;
}

export type GatewayWord =
  | { readonly kind: "port"; readonly port: number }
  | { readonly kind: "told" }
  | {
      readonly kind: "asked";
      readonly method: string;
      readonly path: string;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
    };

const [cert = "", key = ""] = process.argv.slice(2);
const tell = (word: GatewayWord) => process.send?.(word);
let reply: ScriptedReply = { status: 500 };

process.on("message", (next: ScriptedReply) => {
  reply = next;
  tell({ kind: "told" });
});
process.on("disconnect", () => process.exit());

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
  void text(request).then((body) => {
    tell({ kind: "asked", method: request.method ?? "", path: request.url ?? "", headers: request.headers, body });
    const { status, headers = {}, body: answer } = reply;
    const isText = typeof answer === "string" || answer === undefined;
    response.writeHead(status, isText ? headers : { "content-type": "application/json", ...headers });
    response.end(isText ? answer : JSON.stringify(answer));
  });
});
server.listen(0, "127.0.0.1", () => tell({ kind: "port", port: (server.address() as AddressInfo).port }));
