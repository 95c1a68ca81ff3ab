/**
 * The yardstick: connect-node as it comes, with a handler that does nothing, on the same contract.
 */
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Delivery, OtpService, State } from "../../gen/otp/v1/otp_service_pb.ts";

const answer = { requestId: "AAAAAAAAAAAAAAAAAAAAAA", state: State.PENDING, delivery: Delivery.SENDING, codeLength: 6 };
const server = createServer(
  connectNodeAdapter({ routes: (router) => router.service(OtpService, { sendOtp: () => answer }) }),
);
server.listen(0, "127.0.0.1", () => process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
