/**
 * What answers the service's webhook provider: it takes each message after so long, and passes its code to the load generator.
 *
 *   receiver.ts '{"codes":"/tmp/codes.sock","takesMs":0}'
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { openCodePipe } from "./code-pipe.ts";

export interface ReceiverOptions {
  /** The load generator's socket. */
  readonly codes: string;
  /** From a message to its answer. */
  readonly takesMs: number;
}

const { codes, takesMs } = JSON.parse(process.argv[2] ?? "{}") as ReceiverOptions;
const passOn = openCodePipe(codes);
const server = createServer((request, response) => {
  json(request).then(
    (body) => {
      const { to, text, reference } = body as { to: string; text: string; reference: string };
      setTimeout(() => {
        response.setHeader("content-type", "application/json").end(JSON.stringify({ id: reference }));
        passOn(to, text.slice(0, text.indexOf(" ")));
      }, takesMs);
    },
    // The service has ended in the middle of a request.
    () => response.destroy(),
  );
});
server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", () => process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
