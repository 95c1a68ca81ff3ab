/**
 * The codecs of the surfaces: a whole message becomes a call's request, and its result the answer. REST needs only
 * JSON, and gRPC in its own encoding one frame. All else of gRPC, gRPC-web and Connect is spoken by Connect's own
 * handlers. But a message is read here, once, whichever surface it came by, so that a fault in it has our words and its
 * protocol's code; Connect's handler gets an empty one in its place.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import {
  createConnectRouter,
  createContextKey,
  createContextValues,
  type ContextKey,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";
import type { Refusal, Result } from "../../otp/reason.ts";
import { inOnePiece } from "../http/body.ts";
import { headersOf, isGrpc, isGrpcWebText } from "../http/headers.ts";
import { gather, type Sendable } from "../http/response.ts";
import type { Request } from "../listener/exchange.ts";
import type { Call } from "./call.ts";
import {
  codecOptions,
  createJsonWriter,
  decode,
  encodedBy,
  undecodableQuery,
  unlikeProtocol,
  type Fields,
} from "./decoding.ts";
import { codeSaid, httpStatus, refusalOn, restError, toConnectError } from "./errors.ts";
import { asText, emptyBody, frameOf, unwrap } from "./frames.ts";
import type { Message, Perform } from "./handlers.ts";
import type { Routed } from "./routes.ts";

/** What a codec needs to know of a request beside its body. */
export type Headed = Pick<Request, "method" | "httpVersion" | "headers">;

export interface Codecs {
  /** Connect's handlers, one per RPC. */
  readonly handlers: readonly UniversalHandler[];
  /** Takes a call from its whole body to its whole answer. */
  answer(call: Call, routed: Routed, request: Headed, body: Uint8Array): Promise<Sendable>;
}

/** Marks what an earlier call with the same `Idempotency-Key` was answered. */
const replayedHeader = "idempotency-replayed";
const jsonHeaders = { "content-type": "application/json" };
/** The media types of gRPC's plainest messages, which need nothing of Connect. */
const binaryGrpc = new Set(["application/grpc", "application/grpc+proto"]);
const grpcOk = {
  status: 200,
  headers: { "content-type": "application/grpc+proto" },
  trailers: { "grpc-status": "0" },
};

const writers = new Map(OtpService.methods.map(({ name, output }) => [name, createJsonWriter(output)]));

interface Bearing {
  readonly call: Call;
  /** Undefined where it is in the query, which Connect reads. */
  readonly message: Message | undefined;
}

/** A call in Connect's context values. */
const bearingKey: ContextKey<Bearing | undefined> = createContextKey<Bearing | undefined>(undefined);

/** For Connect: nothing aborts a call, which is answered though it is late (handlers.ts). A real one would cost it three more. */
const neverAborted = { aborted: false, addEventListener() {}, removeEventListener() {} } as unknown as AbortSignal;

/** `messageBytesMax` is the most that a message may have, headers and envelopes apart. */
export function createCodecs(perform: Perform, messageBytesMax: number): Codecs {
  const implementations = OtpService.methods.map(({ localName }) => [localName, connectImplementation(perform)]);
  const { handlers } = createConnectRouter(codecOptions(messageBytesMax)).service(
    OtpService,
    Object.fromEntries(implementations) as ServiceImpl<typeof OtpService>,
  );

  return {
    handlers,

    async answer(call, routed, request, body) {
      const { surface, handler, type } = routed;
      if (surface === "rest") {
        const read = decode(handler.method, "json", body);
        if (!read.ok) return refuseOn(routed, call, read.refusal);
        const result = await perform(call, read.value);
        return inJson(call, handler.method.name, result);
      }
      if (surface === "connect" && request.method === "GET") return overConnect(call, routed, request);
      const message = unwrap(surface, request.headers, body, messageBytesMax);
      const read = message.ok ? decode(handler.method, encodedBy(type), message.value) : message;
      if (!read.ok) return refuseOn(routed, call, read.refusal);
      if (!binaryGrpc.has(type)) return overConnect(call, routed, request, read.value);
      return inGrpc(call, routed, await perform(call, read.value));
    },
  };
}

/** Answers a call that is refused before its RPC was called. */
export function refuseOn({ surface, type }: Routed, call: Call, refusal: Refusal): Sendable {
  call.refusal = refusal;
  return refusalOn(surface, type, refusal);
}

/** What a call came to, as REST has it. */
function inJson({ isReplayed }: Call, rpc: string, result: Result<Fields>): Sendable {
  const answer = result.ok
    ? { status: 200, headers: jsonHeaders, body: writers.get(rpc)?.(result.value) ?? "" }
    : restError(result.refusal);
  return isReplayed ? { ...answer, headers: { ...answer.headers, [replayedHeader]: "true" } } : answer;
}

/** The same as gRPC has it. Connect's handler would take as long for that as the rest of a call's way in and out. */
function inGrpc({ isReplayed }: Call, { handler, surface, type }: Routed, result: Result<Fields>): Sendable {
  const { output } = handler.method;
  const answer: Sendable = result.ok
    ? { ...grpcOk, body: frameOf(0, toBinary(output, create(output, result.value))) }
    : refusalOn(surface, type, result.refusal);
  return isReplayed ? { ...answer, trailers: { ...answer.trailers, [replayedHeader]: "true" } } : answer;
}

/** What Connect calls. Only here is a refusal thrown, since that is how Connect takes one. */
function connectImplementation(perform: Perform) {
  return async (request: Message, context: HandlerContext): Promise<Fields> => {
    const { call, message } = context.values.get(bearingKey) ?? {};
    if (call === undefined) throw new Error("Connect's handlers are for the gateway to call");
    const result = await perform(call, message ?? request);
    // Where a refusal has it too: gRPC's refusals have nothing but trailers.
    const headers = isGrpc(call.surface) ? context.responseTrailer : context.responseHeader;
    if (call.isReplayed) headers.set(replayedHeader, "true");
    if (!result.ok) throw toConnectError(result.refusal);
    return result.value;
  };
}

/** Has Connect's handler perform a call, and brings its answer to what the surface shows. */
async function overConnect(call: Call, routed: Routed, request: Headed, message?: Message): Promise<Sendable> {
  const { handler, surface, type, url } = routed;
  const header = headersOf(request, surface);
  // The empty message is in no encoding, whatever the one was that stands for it.
  if (surface === "connect") header.delete("content-encoding");
  const answer = await handler({
    httpVersion: request.httpVersion,
    method: request.method ?? "POST",
    url,
    header,
    body: inOnePiece(emptyBody(surface, type)),
    signal: neverAborted,
    contextValues: createContextValues().set(bearingKey, { call, message }),
  });
  const whole = await gather(answer);
  if (call.refusal === undefined && !call.reached) {
    // Connect has refused it in words that may quote it. Say it in ours instead.
    const said = codeSaid(surface, whole);
    return refuseOn(routed, call, message === undefined ? undecodableQuery(said) : unlikeProtocol(said));
  }
  if (surface === "connect" && call.refusal !== undefined) return { ...whole, status: httpStatus(call.refusal) };
  return isGrpcWebText(type) ? asText(whole) : whole;
}
