/**
 * The RPCs that anybody may call, since they say how the server is and what it speaks: health and reflection. Some are
 * streams, and the gateway serves only whole messages and answers. So the two halves of connect-node's adapter serve
 * them, within our bounds: of sizes and of time, and of how many may be under way at once, for each kind by itself.
 * Whoever watches, or asks without end, keeps nobody from a check. They are answered during a stop, too.
 */
import {
  Code,
  ConnectError,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type ConnectRouter,
} from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest } from "@connectrpc/connect-node";
import { constants } from "node:http2";
import { refuse, type Refusal } from "../../otp/reason.ts";
import { peerOf } from "./authorize.ts";
import { connectionOf, type Request, type Response } from "../listener/exchange.ts";
import { createBudget, type BudgetLimits } from "./budget.ts";
import { codecOptions, decode, encodedBy } from "./decoding.ts";
import { createDoor } from "./door.ts";
import { refuseForNow } from "./faults.ts";
import type { Pages, Shared } from "./gateway.ts";
import { abandon, discard, inOnePiece, readBody } from "../http/body.ts";
import { createDeadlines } from "../http/deadlines.ts";
import { headersOf, isGrpc, isGrpcWebText } from "../http/headers.ts";
import { gather, isClosed, write, writeAsItComes } from "../http/response.ts";
import { asText, fromText, notText, streamedAsText, unwrap } from "./frames.ts";
import { allowing, createRouter, foldSlashes, type Routed } from "./routes.ts";
import { inOwnSize, type TurnAway } from "./turn-away.ts";

export interface OpenRpcsOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly messageBytesMax: number;
  /** How long a message may take to be here, and a check to be answered. A stream of reflection lasts as long as its client wants. */
  readonly deadlineMs: number;
  /** How long a watch may last: whoever has vanished without a word is still watching. */
  readonly watchMs: number;
  /** Each at once, in all and of one address. */
  readonly budgets: OpenRpcBudgets;
  /** Finds the address that a connection counts for, by its peer; undefined for one that many callers have. */
  readonly ownAddressOf: (peer: string | undefined) => string | undefined;
  /** Whether nothing is to be begun in this turn of the event loop, since connections are taken in it. */
  readonly isPutOff: () => boolean;
  readonly onFault: (error: unknown) => void;
}

/**
 * By how a call runs: an answer that lasts, or questions and answers for as long as the client likes. One that is answered
 * once and at once, as a check is, has no bound but its connection's: its answer is a few bytes.
 */
export type OpenRpcBudgets = Readonly<Record<"server_streaming" | "bidi_streaming", BudgetLimits>>;

export const openRpcBudgets: OpenRpcBudgets = {
  // Health watches: 1,000 are 5 MB, beside what they hold of long headers (listener/request-bytes.ts).
  server_streaming: { max: 1_000, perAddressMax: 100 },
  // Reflection, for people at their tools.
  bidi_streaming: { max: 200, perAddressMax: 20 },
};

/**
 * How many are begun in a turn of the event loop: 3 to 5 ms of work, since Connect's half takes five times as long for one as
 * we do for a page. Of one connection 100 may come at once.
 */
const begun = { perTurn: 8, looksMax: 8, knownLooksMax: 0, waitingMax: 1_024 };

/** Whether there is no room for a call. */
const isRefused = createContextKey(false);

/** Makes what answers the paths of the open RPCs. */
export function createOpenRpcs(options: OpenRpcsOptions, shared: Pick<Shared, "turnAway">): Pages {
  const { messageBytesMax, deadlineMs, watchMs, budgets, ownAddressOf, isPutOff, onFault } = options;
  const turnAway: TurnAway = (request, response, refusal, more) =>
    shared.turnAway(request, response, inOwnSize(refusal, messageBytesMax), more);
  const deadlines = createDeadlines(deadlineMs);
  const door = createDoor(begun, isPutOff);
  const budgetOf = {
    server_streaming: createBudget(budgets.server_streaming),
    bidi_streaming: createBudget(budgets.bidi_streaming),
  };
  const rpcs = createConnectRouter({
    ...codecOptions(messageBytesMax),
    requestGate({ values }) {
      if (values.get(isRefused)) throw new ConnectError("too many such calls at once", Code.ResourceExhausted);
    },
  });
  options.routes(rpcs);
  const paths = new Set(rpcs.handlers.map(({ requestPath }) => requestPath));
  const router = createRouter(rpcs.handlers, messageBytesMax);

  async function serve(path: string, request: Request, response: Response, lasts: () => void): Promise<void> {
    const routed = router.route(request, path);
    if (!routed.ok) {
      discard(request);
      return turnAway(request, response, routed.refusal, allowing(routed));
    }
    const { handler } = routed;
    const isText = isGrpcWebText(routed.type);
    if (routed.refusal !== undefined) {
      discard(request);
      return turnAway(request, response, routed.refusal, { surface: routed.surface });
    }
    const isWhole = handler.method.methodKind !== "bidi_streaming";
    const read = isWhole ? await readBody(request, routed.bytesMax, deadlines) : empty;
    if (read === undefined) return;
    if (!(read instanceof Uint8Array)) return turnAway(request, response, read, { surface: routed.surface });
    const who = { isKnown: false, address: ownAddressOf(peerOf(request)), connection: connectionOf(request) } as const;
    const looked = await door.enter(() => who);
    if (looked === undefined)
      return sendBack(request, () => turnAway(request, response, refuseForNow("STORE_UNAVAILABLE")));
    // Only how many are begun in a turn is bounded.
    looked();
    if (isClosed(response)) return;
    const whole = isText ? (fromText(read) ?? notText) : read;
    const refusal = isWhole ? whyUnreadable(routed, request, whole, messageBytesMax) : undefined;
    if (refusal !== undefined) return turnAway(request, response, refusal, { surface: routed.surface });
    // Not before its body is whole: one that never ends would hold what others need.
    const kind = kindOf(handler);
    const taken = kind === "unary" ? undefined : budgetOf[kind].take(who.address);
    if (taken !== undefined && typeof taken !== "string") {
      response.once("close", taken.giveBack);
      taken.yieldTo(() => abandon(request));
      if (isWatch(handler)) lasts();
      // It may have left meanwhile.
      if (isClosed(response)) return;
    }
    const values = createContextValues().set(isRefused, typeof taken === "string");
    const asked = universalRequestFromNodeRequest(ledTo(routed, request), response, undefined, values);
    const header = headersOf(request, routed.surface, isWatch(handler) ? watchMs : deadlineMs);
    const answer = await handler({ ...asked, header, body: isWhole ? inOnePiece(whole) : inSmallPieces(request) });
    if (kind === "unary") {
      const gathered = await gather(answer);
      return write(response, isText ? asText(gathered) : gathered);
    }
    response.setHeader("cache-control", "no-store");
    await writeAsItComes(response, isText ? streamedAsText(answer) : answer);
  }

  return (path, request, response, lasts) => {
    if (!paths.has(foldSlashes(path))) return undefined;
    return serve(path, request, response, lasts).catch((error: unknown) => {
      // A client that has left is no fault.
      if (isClosed(response)) return;
      onFault(error);
      if (response.headersSent) response.destroy();
      else turnAway(request, response, refuse("INTERNAL").refusal);
    });
  };
}

const empty = new Uint8Array();

/** Connect makes all messages of a piece at once, and 3,000 fit into one of 16 KiB: half a megabyte, for as long as they wait. */
const pieceBytesMax = 512;

async function* inSmallPieces(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of body)
    for (let from = 0; from < piece.length; from += pieceBytesMax) yield piece.subarray(from, from + pieceBytesMax);
}

/** Why the one message cannot be read. Connect would call some of it a fault of ours, for which balancers take an instance out. */
function whyUnreadable(
  { handler: { method }, surface, type }: Routed,
  { headers }: Request,
  body: Uint8Array,
  bytesMax: number,
): Refusal | undefined {
  const isUnwrapped = method.methodKind === "unary" || isGrpc(surface);
  if (!isUnwrapped) return undefined;
  const message = unwrap(surface, headers, body, bytesMax);
  const read = message.ok ? decode(method, encodedBy(type), message.value) : message;
  return read.ok ? undefined : read.refusal;
}

/** The request with the address of its RPC instead of its own: Connect's half fails over what is no URL, or names no host. */
function ledTo({ url }: Routed, request: Request): Request {
  request.url = url;
  request.headers.host = ownHost;
  if ("stream" in request) request.headers[":authority"] = ownHost;
  return request;
}

const ownHost = "otpd";

/** Sends away what may come again, since nothing was done: over HTTP/2 a client then sends it once more by itself. */
function sendBack(request: Request, turnAway: () => void): void {
  if ("stream" in request) request.stream.close(constants.NGHTTP2_REFUSED_STREAM);
  else turnAway();
}

/** There is no RPC that only a client streams. */
function kindOf({ method: { methodKind } }: UniversalHandler): "unary" | keyof OpenRpcBudgets {
  return methodKind === "client_streaming" ? "bidi_streaming" : methodKind;
}

function isWatch({ method }: UniversalHandler): boolean {
  return method.methodKind === "server_streaming";
}
