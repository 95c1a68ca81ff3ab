/**
 * The floor: Node's own HTTP server, whose handler reads the body and answers with a fixed text.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const answer = JSON.stringify({ requestId: "AAAAAAAAAAAAAAAAAAAAAA", state: "STATE_PENDING" });
const headers = { "content-type": "application/json", "content-length": answer.length };
const server = createServer((request, response) => {
  request.resume().once("end", () => response.writeHead(200, headers).end(answer));
});
// Its lanes idle while others have their turn.
server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", () => process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
