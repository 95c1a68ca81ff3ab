/**
 * A refusal as each surface shows it, made without a handler of Connect's: of calls that are refused before their message is
 * decoded, and of requests that never become a call.
 */
import { codeFromString, errorToJson } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag, trailerSerialize } from "@connectrpc/connect/protocol-grpc-web";
import type { Refusal, StatusCode } from "../../otp/reason.ts";
import type { Sendable } from "../http/response.ts";
import type { Request } from "../listener/exchange.ts";
import type { Surface } from "../http/media-type.ts";
import { jsonOptions } from "./decoding.ts";
import { asText, frameOf } from "./frames.ts";
import { isGrpcWebText, mediaTypeOf, surfaceOf } from "../http/media-type.ts";
import { restError } from "./rest-error.ts";
import { codeNamed, httpStatus, toConnectError } from "./errors.ts";

/** `type` is the request's media type, without parameters. */
export function refusalOn(surface: Surface, type: string, refusal: Refusal): Sendable {
  if (surface === "rest") return restError(refusal);
  const error = toConnectError(refusal);
  const { reason, code } = refusal;
  const isUnknownEncoding = reason === "MEDIA_TYPE_UNSUPPORTED" && code === "UNIMPLEMENTED";
  if (surface === "connect") {
    const more = isUnknownEncoding ? { "accept-encoding": "gzip" } : {};
    return {
      status: httpStatus(refusal),
      headers: { ...Object.fromEntries(error.metadata), ...more, "content-type": "application/json" },
      body: JSON.stringify(errorToJson(error, jsonOptions)),
    };
  }
  const trailers = setTrailerStatus(new Headers(), error);
  const codec = type.endsWith("+json") ? "json" : "proto";
  const headers = {
    "content-type": `application/${surface}+${codec}`,
    ...(isUnknownEncoding ? { "grpc-accept-encoding": "gzip" } : {}),
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
