/**
 * A refusal on the wire. One table (otp/reason.ts) becomes a ConnectError. Connect encodes it for gRPC, gRPC-web and
 * Connect once its handler was called, and this file does where the call was refused before. The REST paths have the
 * essentials at the top level besides. Every error carries google.rpc details for stock helpers and `otp.v1.OtpError`
 * for typed clients, each at most once.
 */
import { create, toBinary, toJson, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromString, codeToString, errorToJson } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag, trailerSerialize } from "@connectrpc/connect/protocol-grpc-web";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { OtpErrorSchema, Reason as ProtoReason } from "../../../gen/otp/v1/otp_service_pb.ts";
import {
  codeOfRefusal,
  reasons,
  retryAfterSeconds,
  sentenceOf,
  type Reason,
  type Refusal,
  type StatusCode,
} from "../../otp/reason.ts";
import { isGrpcWebText, mediaTypeOf, surfaceOf, type Surface } from "../http/headers.ts";
import type { Sendable } from "../http/response.ts";
import type { Request } from "../listener/exchange.ts";
import { jsonOptions } from "./decoding.ts";
import { asText, frameOf } from "./frames.ts";

/** The `domain` of google.rpc.ErrorInfo. */
export const errorDomain = "otpd";

const statuses: Record<StatusCode, { code: Code; http: number }> = {
  INVALID_ARGUMENT: { code: Code.InvalidArgument, http: 400 },
  FAILED_PRECONDITION: { code: Code.FailedPrecondition, http: 400 },
  NOT_FOUND: { code: Code.NotFound, http: 404 },
  UNAUTHENTICATED: { code: Code.Unauthenticated, http: 401 },
  PERMISSION_DENIED: { code: Code.PermissionDenied, http: 403 },
  RESOURCE_EXHAUSTED: { code: Code.ResourceExhausted, http: 429 },
  ABORTED: { code: Code.Aborted, http: 409 },
  UNIMPLEMENTED: { code: Code.Unimplemented, http: 501 },
  UNAVAILABLE: { code: Code.Unavailable, http: 503 },
  DEADLINE_EXCEEDED: { code: Code.DeadlineExceeded, http: 504 },
  INTERNAL: { code: Code.Internal, http: 500 },
};

/** The proto's value for each reason. Neither side compiles with a reason that the other lacks. */
export const protoReasons: Record<Reason, ProtoReason> = ProtoReason;
type Unlisted = Exclude<keyof typeof ProtoReason, Reason | "UNSPECIFIED">;
export const everyReasonIsListed: [Unlisted] extends [never] ? true : Unlisted = true;

export function httpStatus(refusal: Refusal): number {
  const row: { code: StatusCode; http?: number } = reasons[refusal.reason];
  return row.http ?? statuses[codeOfRefusal(refusal)].http;
}

/** The code by its number; undefined for one that is not in use here. */
function codeNamed(code: Code): StatusCode | undefined {
  return (Object.keys(statuses) as StatusCode[]).find((name) => statuses[name].code === code);
}

/**
 * What a library may retry by itself. grpc-java retries whatever has a pushback, whether its service config says so or not: with one on
 * RESEND_TOO_SOON its caller hears nothing until the deadline, while the library waits for half a minute.
 */
const retried: ReadonlySet<StatusCode> = new Set(["UNAVAILABLE", "ABORTED"]);

/** What every surface shows of a refusal. */
interface RefusalParts {
  readonly code: Code;
  readonly sentence: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly details: readonly Detail[];
}

/** Tells a refusal, with its details and its `Retry-After`. */
function partsOf(refusal: Refusal): RefusalParts {
  const { reason, field, attemptsRemaining } = refusal;
  const sentence = sentenceOf(refusal);
  const seconds = retryAfterSeconds(refusal);
  const delay = seconds === undefined ? undefined : { seconds: BigInt(seconds) };
  const metadata: Record<string, string> = {
    ...(field === undefined ? {} : { field }),
    ...(attemptsRemaining === undefined ? {} : { attempts_remaining: `${attemptsRemaining}` }),
    ...refusal.metadata,
  };
  const details = [
    detail(ErrorInfoSchema, { reason, domain: errorDomain, metadata }),
    detail(OtpErrorSchema, {
      reason: protoReasons[reason],
      ...(field === undefined ? {} : { field }),
      ...(attemptsRemaining === undefined ? {} : { attemptsRemaining }),
      ...(delay === undefined ? {} : { retryAfter: delay }),
    }),
    ...(delay === undefined ? [] : [detail(RetryInfoSchema, { retryDelay: delay })]),
    ...(field === undefined || codeOfRefusal(refusal) !== "INVALID_ARGUMENT"
      ? []
      : [detail(BadRequestSchema, { fieldViolations: [{ field, description: sentence }] })]),
  ];
  const headers: Record<string, string> = {
    ...(seconds === undefined ? {} : { "retry-after": `${seconds}` }),
    ...(seconds !== undefined && retried.has(codeOfRefusal(refusal))
      ? { "grpc-retry-pushback-ms": `${seconds * 1000}` }
      : {}),
    ...(refusal.mayBeDone === true ? { "grpc-retry-pushback-ms": "-1" } : {}),
    ...(codeOfRefusal(refusal) === "UNAUTHENTICATED" ? { "www-authenticate": "Bearer" } : {}),
  };
  return { code: statuses[codeOfRefusal(refusal)].code, sentence, headers, details };
}

interface Detail {
  readonly desc: DescMessage;
  readonly value: Record<string, unknown>;
}

function detail<D extends DescMessage>(desc: D, value: MessageInitShape<D>): Detail {
  return { desc, value };
}

/** A refusal as Connect's error. */
export function toConnectError(refusal: Refusal): ConnectError {
  const { code, sentence, headers, details } = partsOf(refusal);
  return new ConnectError(sentence, code, headers, [...details]);
}

// ---- the answer -----------------------------------------------------------------------------------------------------

/**
 * An error as the REST paths show it: Connect's body, with its essentials repeated at the top level. Written here, since a
 * ConnectError makes Node load its whole `fetch`: some 30 ms of a start and 3 MB.
 */
export function restError(refusal: Refusal) {
  const { code, sentence, headers, details } = partsOf(refusal);
  const { reason, field, attemptsRemaining } = refusal;
  const seconds = retryAfterSeconds(refusal);
  const essentials = {
    reason,
    ...(field === undefined ? {} : { field }),
    ...(attemptsRemaining === undefined ? {} : { attempts_remaining: attemptsRemaining }),
    ...(seconds === undefined ? {} : { retry_after_seconds: seconds }),
  };
  return {
    status: httpStatus(refusal),
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({
      code: codeToString(code),
      message: sentence,
      ...essentials,
      details: details.map(detailToJson),
    }),
  };
}

/** A detail as Connect's protocol has it: its bytes in base64 without padding, and what they say. */
function detailToJson({ desc, value }: Detail) {
  const message = create(desc, value);
  return {
    type: desc.typeName,
    debug: toJson(desc, message, jsonOptions),
    value: Buffer.from(toBinary(desc, message)).toString("base64").replace(/=+$/, ""),
  };
}

/** A refusal as a surface shows it. `type` is the request's media type, without parameters. */
export function refusalOn(surface: Surface, type: string, refusal: Refusal): Sendable {
  if (surface === "rest") return restError(refusal);
  const { reason, code } = refusal;
  const isUnknownEncoding = reason === "MEDIA_TYPE_UNSUPPORTED" && code === "UNIMPLEMENTED";
  const encodings = isUnknownEncoding ? "gzip" : undefined;
  return errorOn({ surface, type, status: httpStatus(refusal), encodings }, toConnectError(refusal));
}

/** Where an error is shown: to whom, with which HTTP status, and the encodings that would be served, if that is the trouble. */
export interface Shown {
  readonly surface: Surface;
  readonly type: string;
  readonly status: number;
  readonly encodings?: string | undefined;
}

/** An error as the surfaces that Connect speaks show it. */
export function errorOn({ surface, type, status, encodings }: Shown, error: ConnectError): Sendable {
  if (surface === "connect" || surface === "rest") {
    const more = encodings === undefined ? {} : { "accept-encoding": encodings };
    return {
      status,
      headers: { ...Object.fromEntries(error.metadata), ...more, "content-type": "application/json" },
      body: JSON.stringify(errorToJson(error, jsonOptions)),
    };
  }
  const trailers = setTrailerStatus(new Headers(), error);
  const codec = type.endsWith("+json") ? "json" : "proto";
  const headers = {
    "content-type": `application/${surface}+${codec}`,
    ...(encodings === undefined ? {} : { "grpc-accept-encoding": encodings }),
  };
  if (surface === "grpc") return { status: 200, headers, body: "", trailers: Object.fromEntries(trailers) };
  const answer = { status: 200, headers, body: frameOf(trailerFlag, trailerSerialize(trailers)) };
  return isGrpcWebText(type) ? asText(answer) : answer;
}

/** A refusal of a request that never becomes a call: as on REST, or as gRPC's clients understand it. */
export function refusalBefore(request: Request, refusal: Refusal, known?: Surface): Sendable {
  const { method, headers, httpVersionMajor } = request;
  const { type } = mediaTypeOf(headers["content-type"]);
  if (known !== undefined) return refusalOn(known, type, refusal);
  const surface = surfaceOf(type);
  // gRPC's own clients read trailers, which there are on HTTP/2; a wrong type or method is HTTP's to tell, also to them.
  const isGrpc = surface === "grpc-web" || (surface === "grpc" && httpVersionMajor === 2);
  const isOfHttp = /^(MEDIA_TYPE_UNSUPPORTED|METHOD_NOT_ALLOWED)$/.test(refusal.reason) && refusal.code === undefined;
  if (!isGrpc || isOfHttp || method !== "POST") return restError(refusal);
  const isUnknown = refusal.reason === "ROUTE_NOT_FOUND";
  return refusalOn(surface, type, isUnknown ? { ...refusal, code: "UNIMPLEMENTED" } : refusal);
}

/** The code in an answer that Connect made; undefined where there is none that is known. */
export function codeSaid(surface: Surface, { body, trailers }: Sendable): StatusCode | undefined {
  const text = Buffer.from(body as Uint8Array).toString("latin1");
  if (surface === "grpc") return codeNamed(Number(trailers?.["grpc-status"]));
  if (surface === "grpc-web") return codeNamed(Number(/^grpc-status: ?(\d+)/m.exec(text)?.[1]));
  const [, name] = /^{"code":"([a-z_]+)"/.exec(text) ?? [];
  const code = name === undefined ? undefined : codeFromString(name);
  return code === undefined ? undefined : codeNamed(code);
}
