/**
 * The surfaces a caller can come by, each with its real client, all brought to one form so that one list of scenarios
 * can run over every one of them.
 */
import {
  create,
  fromBinary,
  fromJson,
  toJson,
  type DescMessage,
  type DescMethodUnary,
  type JsonObject,
} from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { OtpErrorSchema, OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";
import type { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expectDocumented } from "../readers/openapi.ts";
import { overHttp1 } from "./wire.ts";

export type Rpc = "SendOtp" | "VerifyOtp" | "ResendOtp" | "CancelOtp" | "GetOtp";

/** A request in the wire's JSON spelling, such as `{ request_id: "…" }`. */
export type Message = JsonObject;

/** What a call came to, whatever it came by. */
export interface Outcome {
  /** The answer in the wire's JSON spelling; undefined when refused. */
  readonly value?: JsonObject;
  /** The reason of a refusal, from google.rpc.ErrorInfo. */
  readonly reason?: string;
  /** The gRPC code of a refusal, such as "FAILED_PRECONDITION". */
  readonly code?: string;
  /** The HTTP status, where the surface shows one (REST and Connect). */
  readonly http?: number;
  readonly message?: string;
  readonly field?: string;
  readonly attemptsRemaining?: number;
  readonly retryAfterSeconds?: number;
  /** A refusal's details by the name of their type. */
  readonly details?: Record<string, unknown>;
  /** Response headers; on gRPC and gRPC-web, trailers too. */
  readonly headers: Headers;
}

export interface CallOptions {
  /** The API key, or null to send no Authorization. */
  readonly key: string | null;
  readonly headers?: Record<string, string>;
  readonly timeoutMs?: number;
}

export interface Surface {
  readonly name: "REST" | "Connect JSON" | "Connect JSON by fetch" | "Connect binary" | "gRPC" | "gRPC-web";
  call(url: string, rpc: Rpc, message: Message, options: CallOptions): Promise<Outcome>;
}

const restPaths: Record<Exclude<Rpc, "GetOtp">, string> = {
  SendOtp: "/v1/otp/send",
  VerifyOtp: "/v1/otp/verify",
  ResendOtp: "/v1/otp/resend",
  CancelOtp: "/v1/otp/cancel",
};

/** The REST paths by `fetch`, or through an agent's connections. Every answer must be one that gen/openapi.json has. */
function makeRest(agent: Agent | undefined): Surface {
  return {
    name: "REST",
    async call(url, rpc, message, options) {
      const isGet = rpc === "GetOtp";
      const path = isGet ? `/v1/otp/${encodeURIComponent(String(message["request_id"]))}` : restPaths[rpc];
      const request = {
        method: isGet ? "GET" : "POST",
        headers: { ...headersOf(options), ...(isGet ? {} : { "content-type": "application/json" }) },
        ...(isGet ? {} : { body: JSON.stringify(message) }),
      };
      const answer =
        agent === undefined ? await byFetch(url + path, request) : await overHttp1(url, { ...request, path, agent });
      const body = JSON.parse(answer.text) as JsonObject;
      expectDocumented({ method: request.method, path, body: message }, { ...answer, body });
      return restOutcome(answer.status, answer.headers, body);
    },
  };
}

async function byFetch(url: string, request: RequestInit) {
  const response = await fetch(url, request);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** An answer of the REST paths in the common form. */
export function restOutcome(status: number, headers: Headers, body: JsonObject): Outcome {
  if (status === 200) return { value: body, headers };
  const details = (body["details"] ?? []) as { type: string; value: string }[];
  return {
    reason: String(body["reason"]),
    code: String(body["code"]).toUpperCase(),
    http: status,
    message: String(body["message"]),
    ...(typeof body["field"] === "string" ? { field: body["field"] } : {}),
    ...(typeof body["attempts_remaining"] === "number" ? { attemptsRemaining: body["attempts_remaining"] } : {}),
    ...(typeof body["retry_after_seconds"] === "number" ? { retryAfterSeconds: body["retry_after_seconds"] } : {}),
    details: detailsOf(details.map(({ type, value }) => ({ type, value: Buffer.from(value, "base64") }))),
    headers,
  };
}

/** Connect's JSON without its client, which hides the HTTP status. */
export const connectByFetch: Surface = {
  name: "Connect JSON by fetch",
  async call(url, rpc, message, options) {
    const response = await fetch(`${url}/otp.v1.OtpService/${rpc}`, {
      method: "POST",
      headers: { ...headersOf(options), "content-type": "application/json" },
      body: JSON.stringify(message),
    });
    const body = (await response.json()) as JsonObject & { details?: { type: string; value: string }[] };
    if (response.ok) return { value: body, headers: response.headers };
    const wire = (body.details ?? []).map(({ type, value }) => ({ type, value: Buffer.from(value, "base64") }));
    const error = new ConnectError(String(body["message"]), undefined, response.headers);
    error.details = wire;
    return { ...outcomeOf(error), code: String(body["code"]).toUpperCase(), http: response.status };
  },
};

const detailSchemas: readonly DescMessage[] = [ErrorInfoSchema, RetryInfoSchema, BadRequestSchema, OtpErrorSchema];

function detailsOf(details: readonly { readonly type: string; readonly value: Uint8Array }[]): Record<string, unknown> {
  const named: Record<string, unknown> = {};
  for (const { type, value } of details) {
    const schema = detailSchemas.find(({ typeName }) => typeName === type);
    if (schema === undefined || type in named) throw new Error(`an unexpected detail: ${type}`);
    named[type] = toJson(schema, fromBinary(schema, value), { useProtoFieldName: schema === OtpErrorSchema });
  }
  return named;
}

/** One transport per address: connections are kept, as real clients keep them. */
function throughTransport(name: Surface["name"], make: (baseUrl: string) => Transport): Surface {
  const transports = new Map<string, Transport>();
  return {
    name,
    async call(url, rpc, message, options) {
      const transport = transports.get(url) ?? make(url);
      transports.set(url, transport);
      const method = OtpService.methods.find((known) => known.name === rpc) as DescMethodUnary | undefined;
      if (method === undefined) throw new Error(`no RPC ${rpc}`);
      const input = create(method.input, fromJson(method.input, message));
      try {
        const {
          message: answer,
          header,
          trailer,
        } = await transport.unary(method, undefined, options.timeoutMs, headersOf(options), input);
        const value = toJson(method.output, answer, {
          useProtoFieldName: true,
          alwaysEmitImplicit: true,
        }) as JsonObject;
        return { value, headers: joined(header, trailer) };
      } catch (error) {
        return outcomeOf(ConnectError.from(error));
      }
    },
  };
}

function outcomeOf(error: ConnectError): Outcome {
  const [info] = error.findDetails(ErrorInfoSchema);
  const [typed] = error.findDetails(OtpErrorSchema);
  const [retry] = error.findDetails(RetryInfoSchema);
  return {
    ...(info === undefined ? {} : { reason: info.reason }),
    code: (Code[error.code] ?? "").replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase(),
    message: error.rawMessage,
    ...(typed?.field ? { field: typed.field } : {}),
    ...(typed?.attemptsRemaining === undefined ? {} : { attemptsRemaining: typed.attemptsRemaining }),
    ...(retry?.retryDelay === undefined ? {} : { retryAfterSeconds: Number(retry.retryDelay.seconds) }),
    details: detailsOf(error.details as { type: string; value: Uint8Array }[]),
    headers: error.metadata,
  };
}

function headersOf({ key, headers = {} }: CallOptions): Record<string, string> {
  return key === null ? headers : { authorization: `Bearer ${key}`, ...headers };
}

function joined(...all: Headers[]): Headers {
  const headers = new Headers();
  for (const each of all) for (const [name, value] of each) headers.append(name, value);
  return headers;
}

/** Every surface that the contract names, with connections of their own; those over HTTP/1.1 through `agent`, if given. */
export function makeSurfaces(agent?: Agent): readonly Surface[] {
  const http1 = { httpVersion: "1.1", ...(agent === undefined ? {} : { nodeOptions: { agent } }) } as const;
  return [
    makeRest(agent),
    throughTransport("Connect JSON", (baseUrl) =>
      createConnectTransport({ baseUrl, ...http1, useBinaryFormat: false }),
    ),
    throughTransport("Connect binary", (baseUrl) =>
      createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true }),
    ),
    throughTransport("gRPC", (baseUrl) => createGrpcTransport({ baseUrl })),
    throughTransport("gRPC-web", (baseUrl) => createGrpcWebTransport({ baseUrl, ...http1 })),
  ];
}

export const surfaces = makeSurfaces();

/**
 * Calls, and calls again as it is told to where the database was out of reach and the call had no effect. PostgreSQL has so
 * long for a connection, a lock and an answer, which on a machine under load is not enough for some of a thousand calls.
 */
export async function callUntilReached(call: () => Promise<Outcome>): Promise<Outcome> {
  for (;;) {
    const outcome = await call();
    const { reason, retryAfterSeconds } = outcome;
    if (reason !== "STORE_UNAVAILABLE" || retryAfterSeconds === undefined) return outcome;
    await sleep(retryAfterSeconds * 1_000);
  }
}
