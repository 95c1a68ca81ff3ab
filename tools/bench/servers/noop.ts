/**
 * The yardstick: connect-node as it comes, with handlers that do nothing, on the same contract. With "http2" as its
 * argument it speaks HTTP/2, and so gRPC.
 */
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { Delivery, OtpService, State } from "../../../gen/otp/v1/otp_service_pb.ts";

const sent = { requestId: "AAAAAAAAAAAAAAAAAAAAAA", state: State.PENDING, delivery: Delivery.SENDING, codeLength: 6 };
const verified = { requestId: sent.requestId, state: State.VERIFIED, phone: "+31612345678" };
const handler = connectNodeAdapter({
  routes: (router) => router.service(OtpService, { sendOtp: () => sent, verifyOtp: () => verified }),
});
const server = process.argv[2] === "http2" ? createHttp2Server(handler) : createServer(handler);
// Its lanes idle while others have their turn.
if ("keepAliveTimeout" in server) server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", () => process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
