/**
 * The two calls of a cycle over gRPC, as Node's own HTTP/2 client makes them. It costs the load generator more than the
 * bare sockets of load.ts, which the servers' bill does not show.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { connect, type ClientHttp2Session } from "node:http2";
import {
  SendOtpRequestSchema,
  SendOtpResponseSchema,
  VerifyOtpRequestSchema,
} from "../../../gen/otp/v1/otp_service_pb.ts";

export interface GrpcCalls {
  /** Resolves with the request_id. */
  send(phone: string): Promise<string>;
  verify(requestId: string, code: string): Promise<void>;
  close(): void;
}

/** Lanes that share one connection. */
const lanesPerConnection = 8;

/** Opens `count` lanes. */
export function openGrpcCalls(port: number, key: string, count: number): GrpcCalls[] {
  const sessions = Array.from({ length: Math.ceil(count / lanesPerConnection) }, () => {
    const session = connect(`http://127.0.0.1:${port}`);
    session.on("error", () => {});
    return session;
  });
  return Array.from({ length: count }, (_, i) => callsOver(sessions[i % sessions.length] as ClientHttp2Session, key));
}

function callsOver(session: ClientHttp2Session, key: string): GrpcCalls {
  const call = (method: string, message: Uint8Array) =>
    new Promise<Buffer>((resolve, reject) => {
      const stream = session.request({
        ":method": "POST",
        ":path": `/otp.v1.OtpService/${method}`,
        "content-type": "application/grpc",
        te: "trailers",
        authorization: `Bearer ${key}`,
      });
      const chunks: Buffer[] = [];
      let status: unknown;
      const note = (headers: { "grpc-status"?: unknown }) => (status = headers["grpc-status"] ?? status);
      stream.on("response", note).on("trailers", note);
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", reject);
      stream.on("close", () => {
        if (status === "0") resolve(Buffer.concat(chunks).subarray(envelopeBytes));
        else reject(new Error(`${method} over gRPC answered ${String(status)}`));
      });
      const envelope = Buffer.alloc(envelopeBytes);
      envelope.writeUInt32BE(message.length, 1);
      stream.end(Buffer.concat([envelope, message]));
    });
  return {
    async send(phone) {
      const answer = await call("SendOtp", toBinary(SendOtpRequestSchema, create(SendOtpRequestSchema, { phone })));
      return fromBinary(SendOtpResponseSchema, answer).requestId;
    },
    async verify(requestId, code) {
      await call("VerifyOtp", toBinary(VerifyOtpRequestSchema, create(VerifyOtpRequestSchema, { requestId, code })));
    },
    close: () => session.close(),
  };
}

/** A flag and the length of what follows. */
const envelopeBytes = 5;
