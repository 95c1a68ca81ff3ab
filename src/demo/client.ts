/**
 * The service as the page calls it: connect-web with the publishable key. Every failure becomes a `Trouble`.
 */
import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { OtpErrorSchema, OtpService, Reason } from "../../gen/otp/v1/otp_service_pb.ts";
import type { ReasonName, Trouble } from "./sentences.ts";

export type OtpClient = Client<typeof OtpService>;

/** The server's own deadline is 15 s: after this there is no answer. */
const timeoutMs = 20_000;

/** A client of the server that this page came from. */
export function createOtpClient(key: string): OtpClient {
  const withKey: Interceptor = (next) => (request) => {
    request.header.set("Authorization", `Bearer ${key}`);
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: location.origin,
    defaultTimeoutMs: timeoutMs,
    interceptors: [withKey],
  });
  return createClient(OtpService, transport);
}

/** Reads the error of a call. */
export function troubleOf(failure: unknown): Trouble {
  const error = ConnectError.from(failure);
  const [said] = error.findDetails(OtpErrorSchema);
  if (said !== undefined) {
    const { attemptsRemaining: attemptsLeft, retryAfter } = said;
    return {
      reason: nameOf(said.reason),
      attemptsLeft,
      waitSeconds: retryAfter === undefined ? undefined : Number(retryAfter.seconds) + retryAfter.nanos / 1e9,
    };
  }
  if (error.code === Code.DeadlineExceeded) return { reason: undefined, silence: "late" };
  // What fetch throws when there is no connection, in every browser.
  if (error.cause instanceof TypeError) return { reason: undefined, silence: "unreachable" };
  return { reason: undefined };
}

/** The name of a reason; undefined for none, and for one that this page does not know yet. */
export function nameOf(reason: Reason): ReasonName | undefined {
  const [name] = Object.entries(Reason).find(([, value]) => value === reason) ?? [];
  return name === undefined || name === "UNSPECIFIED" ? undefined : (name as ReasonName);
}
