/**
 * The RPCs that anybody may call, since they say how the server is and what it speaks: health and reflection. Some are
 * streams, so they do not go through the gateway, which takes a whole message and gives a whole answer. What they cost is
 * bounded by how many may be under way at once, for each kind by itself: whoever watches, or asks without end, keeps nobody
 * from a check. They are answered during a stop, too.
 *
 * Connect's own Node adapter would do less for them: docs/decisions.md, "What serves health and reflection?".
 */
import {
  Code,
  ConnectError,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type ConnectRouter,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { compressionGzip } from "@connectrpc/connect-node";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { refuse } from "../../otp/reason.ts";
import { peerOf } from "./authorize.ts";
import type { Request, Response } from "../listener/exchange.ts";
import { createBudget, type BudgetLimits } from "./capacity.ts";
import { jsonOptions } from "./decoding.ts";
import type { Gateway } from "./gateway.ts";
import { discard, inOnePiece, readBody } from "../http/body.ts";
import { createDeadlines } from "../http/deadlines.ts";
import { headersOf, isGrpcWebText } from "../http/headers.ts";
import { isClosed } from "../http/response.ts";
import { fromText, notText, streamedAsText } from "./frames.ts";
import { allowing, createRouter, foldSlashes, pathOf } from "./routes.ts";

export interface OpenRpcsOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly messageBytesMax: number;
  /** How long a message may take to be here, and a call that is no watch to be done. */
  readonly deadlineMs: number;
  /** How long a watch may last: whoever has vanished without a word is still watching. */
  readonly watchMs: number;
  /** Each at once, in all and of one address. */
  readonly budgets: OpenRpcBudgets;
  /** Finds the address whose share a connection counts in, by its peer; undefined for one that many callers have. */
  readonly shareOf: (peer: string | undefined) => string | undefined;
  readonly onFault: (error: unknown) => void;
}

/**
 * By how a call runs: an answer that lasts, or questions and answers for as long as the client likes. One that is answered
 * once and at once, as a check is, has no bound but its connection's: its answer is a few bytes.
 */
export type OpenRpcBudgets = Readonly<Record<"server_streaming" | "bidi_streaming", BudgetLimits>>;

export const openRpcBudgets: OpenRpcBudgets = {
  // Health watches: 1,000 are 5 MB.
  server_streaming: { max: 1_000, perAddressMax: 100 },
  // Reflection, for people at their tools.
  bidi_streaming: { max: 200, perAddressMax: 20 },
};

/** Whether there is no room for a call. */
const isRefused = createContextKey(false);

/** Puts the open RPCs before a gateway. */
export function withOpenRpcs(gateway: Gateway, options: OpenRpcsOptions): Gateway {
  const { messageBytesMax, deadlineMs, watchMs, budgets, shareOf, onFault } = options;
  const { turnAway } = gateway;
  const deadlines = createDeadlines(deadlineMs);
  const budgetOf = {
    server_streaming: createBudget(budgets.server_streaming),
    bidi_streaming: createBudget(budgets.bidi_streaming),
  };
  const rpcs = createConnectRouter({
    acceptCompression: [compressionGzip],
    readMaxBytes: messageBytesMax,
    jsonOptions,
    requestGate({ values }) {
      if (values.get(isRefused)) throw new ConnectError("too many such calls at once", Code.ResourceExhausted);
    },
  });
  options.routes(rpcs);
  const paths = new Set(rpcs.handlers.map(({ requestPath }) => requestPath));
  const router = createRouter(rpcs.handlers, messageBytesMax);

  async function serve(request: Request, response: Response, lasts: () => void): Promise<void> {
    const routed = router.route(request, pathOf(request));
    if (!routed.ok) {
      discard(request);
      return turnAway(request, response, routed.refusal, allowing(routed));
    }
    const { handler, url } = routed;
    const isText = isGrpcWebText(routed.type);
    if (routed.refusal !== undefined) {
      discard(request);
      return turnAway(request, response, routed.refusal, { surface: routed.surface });
    }
    const gone = new AbortController();
    let giveBack = () => {};
    response.once("close", () => {
      giveBack();
      gone.abort(clientGone);
    });
    let body: AsyncIterable<Uint8Array> = request;
    if (handler.method.methodKind !== "bidi_streaming") {
      const read = await readBody(request, routed.bytesMax, deadlines);
      if (read === undefined) return;
      if (!(read instanceof Uint8Array)) return turnAway(request, response, read);
      body = inOnePiece(isText ? (fromText(read) ?? notText) : read);
    }
    if (gone.signal.aborted) return;
    // Not before its body is whole: one that never ends would hold what others need.
    const kind = kindOf(handler);
    const taken = kind === "unary" ? undefined : budgetOf[kind].take(shareOf(peerOf(request)));
    if (taken !== undefined && typeof taken !== "string") {
      ({ giveBack } = taken);
      if (isWatch(handler)) lasts();
    }
    const answer = await handler({
      httpVersion: request.httpVersion,
      method: request.method ?? "POST",
      url,
      header: headersOf(request, routed.surface, isWatch(handler) ? watchMs : deadlineMs),
      body,
      signal: gone.signal,
      contextValues: createContextValues().set(isRefused, typeof taken === "string"),
    });
    await writeOut(response, isText ? streamedAsText(answer) : answer);
  }

  return {
    ...gateway,
    handle(request, response, lasts = () => {}) {
      if (!paths.has(foldSlashes(pathOf(request)))) return gateway.handle(request, response);
      serve(request, response, lasts).catch((error: unknown) => {
        // A client that has left is no fault.
        if (isClosed(response)) return;
        onFault(error);
        if (response.headersSent) response.destroy();
        else turnAway(request, response, refuse("INTERNAL").refusal);
      });
    },
  };
}

const clientGone = new Error("the client is gone");

/** What only a client streams there is none of. */
function kindOf({ method: { methodKind } }: UniversalHandler): "unary" | keyof OpenRpcBudgets {
  return methodKind === "client_streaming" ? "bidi_streaming" : methodKind;
}

function isWatch({ method }: UniversalHandler): boolean {
  return method.methodKind === "server_streaming";
}

/** Writes an answer as it comes, no faster than the client takes it. */
async function writeOut(response: Response, { status, header, body, trailer }: UniversalServerResponse): Promise<void> {
  if (isClosed(response)) return;
  // The two responses are alike, but their overloads are not.
  const plain = response as ServerResponse;
  plain.writeHead(status, { ...Object.fromEntries(header ?? []), "cache-control": "no-store" });
  const gone = once(plain, "close");
  for await (const chunk of body ?? []) {
    if (isClosed(response)) return;
    if (!plain.write(chunk)) await Promise.race([once(plain, "drain"), gone]);
  }
  if (trailer !== undefined) plain.addTrailers(Object.fromEntries(trailer));
  plain.end();
}
