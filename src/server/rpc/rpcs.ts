/**
 * The RPCs of OtpService, as the gateway calls them: by Connect's own handlers, which do the work of its protocols, and for
 * the REST paths without a protocol in between. The handlers behind both are the same (otp-service.ts), and so are the gate
 * and the guard around them.
 *
 * REST does not go through Connect's protocol, because there is nothing of it to do for a whole JSON message: half of what
 * such a call costs beside the act itself would be headers, streams and signals made for it and thrown away.
 */
import { create, fromJsonString, toJsonString, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import {
  ConnectError,
  createConnectRouter,
  createContextKey,
  type ContextKey,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import { compressionGzip } from "@connectrpc/connect-node";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";
import { refuse } from "../../otp/reason.ts";
import type { Sendable } from "../http/response.ts";
import type { Call } from "./call.ts";
import { jsonOptions, strictText, whyJsonUndecodable } from "./decoding.ts";
import { createGuard, gate } from "./guard.ts";
import { replayedHeader, type OtpHandlers } from "./handlers.ts";
import { restError } from "./rest-error.ts";

export interface Rpcs {
  /** Connect's handlers, one per RPC. A request brings its call under `callKey`. */
  readonly handlers: readonly UniversalHandler[];
  /** Performs a call over REST: from its whole JSON message to its whole answer. Never rejects. */
  rest(call: Call, message: Uint8Array): Promise<Sendable>;
}

export interface RpcsOptions {
  readonly service: OtpHandlers;
  /** The most bytes of a message. */
  readonly messageBytesMax: number;
  /** Told of what was hidden from the caller. */
  readonly onFault: (call: Call, error: unknown) => void;
}

/** A call in Connect's context values. */
export const callKey: ContextKey<Call | undefined> = createContextKey<Call | undefined>(undefined);

type Handler = (request: MessageShape<DescMessage>, call: Call) => Promise<Record<string, unknown>>;

export function createRpcs({ service, messageBytesMax, onFault }: RpcsOptions): Rpcs {
  const guarded = createGuard(onFault);
  const methods = OtpService.methods.map((method) => ({
    ...method,
    perform: service[method.localName as keyof OtpHandlers] as Handler,
  }));
  const byName = new Map(methods.map((method) => [method.name, method]));

  const implementations = methods.map(({ localName, perform }) => {
    const implementation = async (request: MessageShape<DescMessage>, context: HandlerContext) => {
      const call = callOf(context);
      const answer = await guarded(call, () => perform(request, call));
      // Where a refusal has it too: gRPC's refusals have nothing but trailers.
      const isGrpc = call.surface === "grpc" || call.surface === "grpc-web";
      if (call.isReplayed) (isGrpc ? context.responseTrailer : context.responseHeader).set(replayedHeader, "true");
      return answer;
    };
    return [localName, implementation];
  });
  const router = createConnectRouter({
    acceptCompression: [compressionGzip],
    readMaxBytes: messageBytesMax,
    jsonOptions,
    requestGate: (context) => gate(callOf(context)),
  }).service(OtpService, Object.fromEntries(implementations) as ServiceImpl<typeof OtpService>);

  return {
    handlers: router.handlers,

    async rest(call, message) {
      try {
        gate(call);
        const method = byName.get(call.rpc);
        if (method === undefined) throw new Error(`there is no RPC ${call.rpc}`);
        const request = read(method.input, message);
        if (request === undefined) {
          call.refusal = whyJsonUndecodable(method, message);
          return restError(call.refusal);
        }
        const body = await guarded(call, async () => {
          const answer = await method.perform(request, call);
          return toJsonString(method.output, create(method.output, answer), jsonOptions);
        });
        const replayed = call.isReplayed ? { [replayedHeader]: "true" } : {};
        return { status: 200, headers: { "content-type": "application/json", ...replayed }, body };
      } catch (error) {
        if (call.refusal !== undefined && error instanceof ConnectError) return restError(call.refusal, error);
        onFault(call, error);
        call.refusal = refuse("INTERNAL").refusal;
        return restError(call.refusal);
      }
    },
  };
}

function callOf(context: HandlerContext): Call {
  const call = context.values.get(callKey);
  if (call === undefined) throw new Error("Connect's handlers are called by the gateway alone");
  return call;
}

/** Reads a JSON message; undefined when it cannot be decoded. What protobuf says of that may quote it. */
function read<Desc extends DescMessage>(desc: Desc, message: Uint8Array): MessageShape<Desc> | undefined {
  try {
    return fromJsonString(desc, strictText.decode(message), jsonOptions);
  } catch {
    return undefined;
  }
}
