/**
 * A tenant's endpoint as seen from outside, over HTTPS and in a process of its own. It answers each request as it is told,
 * 204 unless told otherwise, and tells its parent of every request. Usage: event-consumer.ts <cert> <key>
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** What is done to a request: a status, a redirect to another path here, no answer, or an answer without an end. */
export type Manner = number | "redirect" | "hang" | "endless";

/** Word from the consumer to its parent. */
export type Word =
  | { readonly kind: "ports"; readonly https: number; readonly http: number }
  | { readonly kind: "ordered" }
  | { readonly kind: "request"; readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string };

const [certPath = "", keyPath = ""] = process.argv.slice(2);
const script: Manner[] = [];
const tell = (word: Word) => void process.send?.(word);

const onRequest: Parameters<typeof createServer>[1] = (request, response) => {
  void text(request).then((body) => {
    tell({ kind: "request", path: request.url ?? "", headers: request.headers, body });
    const manner = script.shift() ?? 204;
    if (manner === "hang") return;
    if (manner === "redirect") response.writeHead(307, { location: "/elsewhere" }).end();
    else if (manner === "endless") {
      response.writeHead(200);
      const more = () => {
        while (!response.destroyed && response.write("x".repeat(16_384)));
      };
      response.on("drain", more);
      more();
    } else response.writeHead(manner).end("thank you");
  });
};
const secure = createSecureServer({ cert: readFileSync(certPath), key: readFileSync(keyPath) }, onRequest);
const plain = createServer(onRequest);
process.on("message", (manners: Manner[]) => {
  script.splice(0, script.length, ...manners);
  tell({ kind: "ordered" });
});
process.on("disconnect", () => process.exit());
const portOf = (server: { address(): AddressInfo | string | null }) => (server.address() as AddressInfo).port;
secure.listen(0, "127.0.0.1", () => {
  plain.listen(0, "127.0.0.1", () => tell({ kind: "ports", https: portOf(secure), http: portOf(plain) }));
});
