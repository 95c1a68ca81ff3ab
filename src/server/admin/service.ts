/**
 * AdminService, as connect-node's own handlers speak it. A message is read here, once, so that a fault in it has our words and
 * no value of it; Connect's handler gets an empty one in its place. A stream's one question is Connect's to read.
 */
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import {
  createConnectRouter,
  createContextKey,
  createContextValues,
  type ContextKey,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { AdminService } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { inOnePiece } from "../http/body.ts";
import { headersOf, isGrpcWebText } from "../http/headers.ts";
import { gather, type Sendable } from "../http/response.ts";
import { requestRefNamed } from "../../otp/verification/verification.ts";
import type { Request } from "../listener/exchange.ts";
import { codecOptions, decode, encodedBy, undecodableQuery, unlikeProtocol } from "../rpc/decoding.ts";
import { codeSaid } from "../rpc/errors.ts";
import { refusalOfFault } from "../rpc/faults.ts";
import { asText, emptyBody, streamedAsText, unwrap } from "../rpc/frames.ts";
import type { Routed } from "../rpc/routes.ts";
import type { Asker } from "./asker.ts";
import type { AdminHandlers } from "./handlers.ts";
import { findOddField } from "./odd-fields.ts";
import { adminError, badField, refuseCall, type AdminRefusal, type AdminResult } from "./refusal.ts";
import type { AdminRpc } from "./rpcs.ts";

/** A call that was let in. */
export interface AdminCall {
  readonly asker: Asker;
  readonly routed: Routed;
  readonly request: Request;
  readonly body: Uint8Array;
  /** Ends when the client has gone, or nobody waits any more. */
  readonly signal: AbortSignal;
  /** Why it was refused, if it was. */
  refusal?: AdminRefusal;
  /** Which verification it named, by the reference that logs have. */
  requestRef?: string | undefined;
}

type Message = MessageShape<DescMessage>;
type Answer = Record<string, unknown>;
type AnyHandler = (request: Message, asker: Asker, signal: AbortSignal) => Promise<AdminResult<unknown>>;

interface Bearing {
  readonly call: AdminCall;
  /** Undefined where Connect reads it: from a query, or of a stream. */
  readonly message: Message | undefined;
  reached: boolean;
}

const bearingKey: ContextKey<Bearing | undefined> = createContextKey<Bearing | undefined>(undefined);

export interface AdminRpcs {
  /** Connect's handlers, one per RPC that is served. */
  readonly handlers: readonly UniversalHandler[];
  /** Takes a call to its whole answer. */
  answer(call: AdminCall): Promise<Sendable>;
  /** Takes a call to an answer that comes piece by piece, for at most `watchMs`. */
  stream(call: AdminCall, watchMs: number): Promise<UniversalServerResponse>;
}

/** `messageBytesMax` is the most that a message may have, envelopes apart; `onFault` gets what no caller is told. */
export function createAdminRpcs(
  handlers: AdminHandlers,
  messageBytesMax: number,
  onFault: (rpc: string, error: unknown) => void,
): AdminRpcs {
  const implementations = Object.fromEntries(
    AdminService.methods.flatMap(({ name, localName, methodKind, idempotency, input }) => {
      const given = handlers[localName as AdminRpc] as AnyHandler | undefined;
      if (given === undefined) return [];
      const isRead = idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
      const handler = faultsRefused(oddRefused(input, given), (error) => {
        onFault(name, error);
        return refusalOfFault(error, isRead);
      });
      return [[localName, methodKind === "unary" ? answering(handler) : streaming(handler)]];
    }),
  );
  const router = createConnectRouter(codecOptions(messageBytesMax)).service(AdminService, implementations);

  return {
    handlers: router.handlers,

    async answer(call) {
      const { routed, request, body } = call;
      const { surface, handler, type } = routed;
      if (request.method === "GET") return whole(call, undefined);
      const message = unwrap(surface, request.headers, body, messageBytesMax);
      const read = message.ok ? decode(handler.method, encodedBy(type), message.value) : message;
      return read.ok ? whole(call, read.value) : refused(call, read.refusal);
    },

    async stream(call, watchMs) {
      const { routed, request, body } = call;
      const header = headersOf(request, routed.surface, watchMs);
      const answer = await routed.handler(asked(call, header, body, { call, message: undefined, reached: false }));
      return isGrpcWebText(routed.type) ? streamedAsText(answer) : answer;
    },
  };
}

/** A handler that is handed nothing that no database takes. */
function oddRefused(input: DescMessage, handler: AnyHandler): AnyHandler {
  return async (request, asker, signal) => {
    const odd = findOddField(input, request);
    return odd === undefined ? handler(request, asker, signal) : badField(odd.field, odd.fault);
  };
}

/** A handler of which nothing is thrown. */
function faultsRefused(handler: AnyHandler, refusalOf: (error: unknown) => AdminRefusal): AnyHandler {
  return (...call) => handler(...call).catch((error: unknown) => ({ ok: false, refusal: refusalOf(error) }));
}

/** What Connect calls. Only here is a refusal thrown, since that is how Connect takes one. */
function answering(handler: AnyHandler) {
  return async (request: Message, { values }: HandlerContext): Promise<Answer> => {
    const { call, message = request } = reach(values.get(bearingKey));
    if ("requestRef" in message) call.requestRef = requestRefNamed(message["requestRef"]);
    const result = await handler(message, call.asker, call.signal);
    return taken(call, result) as Answer;
  };
}

function streaming(handler: AnyHandler) {
  return async function* (request: Message, { values, signal }: HandlerContext): AsyncGenerator<Answer> {
    const { call } = reach(values.get(bearingKey));
    const result = await handler(request, call.asker, signal);
    yield* taken(call, result) as AsyncIterable<Answer>;
  };
}

function reach(bearing: Bearing | undefined): Bearing {
  if (bearing === undefined) throw new Error("Connect's handlers are for the gateway to call");
  bearing.reached = true;
  return bearing;
}

function taken(call: AdminCall, result: AdminResult<unknown>): unknown {
  if (result.ok) return result.value;
  call.refusal = result.refusal;
  throw adminError(result.refusal);
}

function refused(call: AdminCall, refusal: AdminRefusal): Sendable {
  call.refusal = refusal;
  return refuseCall(call.routed, refusal);
}

function asked(call: AdminCall, header: Headers, body: Uint8Array, bearing: Bearing) {
  const { request, routed, signal } = call;
  return {
    httpVersion: request.httpVersion,
    method: request.method ?? "POST",
    url: routed.url,
    header,
    body: inOnePiece(body),
    signal,
    contextValues: createContextValues().set(bearingKey, bearing),
  };
}

/** Has Connect's handler answer a call, and says in our words what it refuses itself. */
async function whole(call: AdminCall, message: Message | undefined): Promise<Sendable> {
  const { routed, request } = call;
  const { surface, type, handler } = routed;
  const header = headersOf(request, surface);
  if (surface === "connect") header.delete("content-encoding");
  const bearing: Bearing = { call, message, reached: false };
  const answer = await gather(await handler(asked(call, header, emptyBody(surface, type), bearing)));
  if (!bearing.reached && call.refusal === undefined) {
    const said = codeSaid(surface, answer);
    return refused(call, message === undefined ? undecodableQuery(said) : unlikeProtocol(said));
  }
  return isGrpcWebText(type) ? asText(answer) : answer;
}
