/**
 * The gateway of the operators' listener: one HTTP request becomes one call of AdminService.
 *
 *   host → page → route → method → type → size → key → origin → scope → limit → body → message → the RPC → answer
 *
 * Whoever has no key gets as little here as at the callers' port: refusals are made once and given out a few in a turn, keys
 * are looked up a few at once, wrong ones are counted by address, and no body is read before its key was found valid.
 */
import type { TurnedAway } from "../../observe/turned-away.ts";
import { refuse, type Refusal } from "../../otp/reason.ts";
import type { CallLimit } from "../../service/callers/call-limits.ts";
import { randomText, type System } from "../../system.ts";
import { discard, readBody } from "../http/body.ts";
import type { ClientAddress } from "../http/client-address.ts";
import { createDeadlines, type Deadlines } from "../http/deadlines.ts";
import { isGrpcWebText, timeoutMsOf } from "../http/headers.ts";
import { isOwnOrigin } from "../http/own-origin.ts";
import { isClosed, write, writeAsItComes } from "../http/response.ts";
import { connectionOf, type Request, type RequestHandler, type Response } from "../listener/exchange.ts";
import { createBudget, reasonOf, type Budget } from "../rpc/budget.ts";
import { callIdBytes } from "../rpc/call.ts";
import { createDoor, Places, type Door } from "../rpc/door.ts";
import { refusalOfFault, refusalOfLate, refuseForNow } from "../rpc/faults.ts";
import type { Pages, Shared } from "../rpc/gateway.ts";
import { fromText, notText } from "../rpc/frames.ts";
import { allowing, createRouter, pathOf, type Routed, type Router } from "../rpc/routes.ts";
import { createShortRefusals, type RefuseShortly } from "../rpc/short-refusals.ts";
import { createTurnAway, inOwnSize, type TurnAway } from "../rpc/turn-away.ts";
import { createAnswerUnreadable } from "../rpc/unreadable.ts";
import { createRefuseUnserved } from "../rpc/unserved.ts";
import { forOperators, lacking, type Asker } from "./asker.ts";
import type { AdminHandlers } from "./handlers.ts";
import { bodyBytesMax, refuseCall, statusOf, type AdminRefusal, type AdminResult } from "./refusal.ts";
import { adminRpcs, type AdminRpc } from "./rpcs.ts";
import { createAdminRpcs, type AdminCall, type AdminRpcs } from "./service.ts";

export interface AdminGatewayOptions {
  readonly handlers: AdminHandlers;
  readonly system: System;
  /** Whether a request names a host that this listener is to be called by. */
  readonly isOwnHost: (request: Request) => boolean;
  /** Makes what answers paths that are no RPC. */
  readonly pages?: ((shared: Shared) => Pages) | undefined;
  /** Whether a request brings anything that could tell who asks. */
  readonly hasCredentials: (request: Request) => boolean;
  /** Finds out who asks. May take a look into the database. */
  readonly authenticate: (request: Request) => Promise<AdminResult<Asker>>;
  /** Whether a request brings a key that was valid lately, without looking it up. */
  readonly wasValid: (request: Request) => boolean;
  readonly addressOf: (request: Request) => ClientAddress;
  /** Finds the address that a client's requests count for; undefined for one that many have. */
  readonly ownAddressOf: (address: string | undefined) => string | undefined;
  /** Calls of one actor. */
  readonly limit: CallLimit;
  /** Gets a request of somebody who is known. */
  readonly onAuthenticated: (request: Request) => void;
  readonly onCall: (call: LoggedCall, status: number, durationMs: number) => void;
  readonly onTurnedAway: (request: TurnedAway) => void;
  readonly onFault: (where: string, error: unknown) => void;
}

/** A call as it is logged. */
export interface LoggedCall {
  readonly id: string;
  readonly rpc: string;
  readonly surface: string;
  readonly caller?: { readonly tenant: string; readonly id: string };
  readonly refusal?: { readonly reason: string };
  /** Which verification it named, by the reference that logs have. */
  readonly requestRef?: string | undefined;
}

/** A sign-in is a token. */
const pageBodyBytesMax = 1_024;
const deadlineMs = 15_000;
/** A stream ends by then; clients ask again. */
const watchMs = 300_000;
/** A key that was revoked, or a session that is over, ends its streams by then. */
const lookAgainMs = 5_000;
const callsMax = 64;
const watches = { max: 64, perAddressMax: 32 };
/**
 * Calls begun in a turn, keys looked up at once, and calls that wait for that. On PostgreSQL calls have 8 connections: what
 * anybody can have looked up here takes half of them at most.
 */
const doorLimits = { perTurn: 8, looksMax: 4, knownLooksMax: callsMax, waitingMax: callsMax };

interface Way {
  readonly options: AdminGatewayOptions;
  readonly rpcs: AdminRpcs;
  readonly router: Router;
  readonly places: Places;
  readonly door: Door;
  readonly deadlines: Deadlines;
  readonly watching: Budget;
  readonly turnAway: TurnAway;
  readonly pages: Pages | undefined;
  readonly refuseShortly: RefuseShortly;
  readonly newId: () => string;
  /** Aborted at a stop: streams would last. */
  readonly stopping: AbortController;
}

export function createAdminGateway(options: AdminGatewayOptions): RequestHandler {
  const { system, onFault, onTurnedAway } = options;
  const newId = () => randomText(system, callIdBytes);
  const rpcs = createAdminRpcs(options.handlers, bodyBytesMax, onFault);
  const saying = createTurnAway(newId, onTurnedAway);
  const turnAwayBeyond =
    (bytesMax: number): TurnAway =>
    (request, response, refusal, more) =>
      saying(request, response, inOwnSize(refusal, bytesMax), more);
  const turnAway = turnAwayBeyond(bodyBytesMax);
  const places = new Places(callsMax);
  const deadlines = createDeadlines(deadlineMs);
  const door = createDoor(doorLimits);
  const way: Way = {
    options,
    rpcs,
    router: createRouter(rpcs.handlers, bodyBytesMax),
    places,
    door,
    deadlines,
    watching: createBudget(watches),
    turnAway,
    pages: options.pages?.({
      places,
      door,
      turnAway: turnAwayBeyond(pageBodyBytesMax),
      deadlines,
      ownAddressOf: (request) => options.ownAddressOf(options.addressOf(request).text),
      bodyBytesMax: pageBodyBytesMax,
      onFault: (error) => onFault("console", error),
    }),
    refuseShortly: createShortRefusals(async () => {}),
    newId,
    stopping: new AbortController(),
  };
  return {
    handle(request, response, lasts = () => {}) {
      serve(way, request, response, lasts).catch((error: unknown) => {
        if (isClosed(response)) return;
        onFault("admin", error);
        if (response.headersSent) response.destroy();
        else turnAway(request, response, refuse("INTERNAL").refusal);
      });
    },
    refuseUnserved: createRefuseUnserved(turnAway),
    answerUnreadable: createAnswerUnreadable(newId, onTurnedAway),
    drain() {
      way.stopping.abort();
      return way.places.drain();
    },
  };
}

/** Takes a request to what answers it: a page, a refusal that costs little, or a call. */
async function serve(way: Way, request: Request, response: Response, lasts: () => void): Promise<void> {
  const { options, router, turnAway, places, refuseShortly, newId } = way;
  if (!options.isOwnHost(request)) {
    discard(request);
    return turnAway(request, response, refuse("ROUTE_NOT_FOUND", { message: otherHost }).refusal);
  }
  const path = pathOf(request);
  const page = way.pages?.(path, request, response, lasts);
  if (page !== undefined) return page;
  const routed = router.route(request, path);
  if (!routed.ok || routed.refusal !== undefined) {
    discard(request);
    const { refusal = refuse("INTERNAL").refusal } = routed;
    return turnAway(request, response, refusal, routed.ok ? { surface: routed.surface } : allowing(routed));
  }
  if (places.isDraining) return void refuseShortly(request, response, routed, refuseForNow("SHUTTING_DOWN"));
  if (!options.hasCredentials(request)) {
    const { refusal } = refuse("API_KEY_MISSING");
    const id = newId();
    const status = await refuseShortly(request, response, routed, refusal, id);
    return options.onCall({ ...said(id, routed), refusal }, status, 0);
  }
  if (places.isFull()) return void refuseShortly(request, response, routed, refuseForNow("STORE_UNAVAILABLE"));
  return serveCall(way, { request, response, routed, lasts });
}

const otherHost = "This listener answers to names of this machine alone, such as localhost.";

const said = (id: string, { handler, surface }: Routed): LoggedCall => ({ id, rpc: handler.method.name, surface });

interface Exchange {
  readonly request: Request;
  readonly response: Response;
  readonly routed: Routed;
  readonly lasts: () => void;
}

/** Serves a call that brings a key, and holds a place from when that is found valid until the answer was taken. */
async function serveCall(way: Way, exchange: Exchange): Promise<void> {
  const { options, places } = way;
  const { request, response, routed } = exchange;
  const startMs = options.system.now();
  const id = way.newId();
  const place = places.begin();
  const done = { isDone: false };
  const leave = () => places.end(place);
  response.once("close", () => done.isDone && leave());
  let logged = said(id, routed);
  try {
    const found = await lookAt(way, request);
    if (found === undefined)
      return void way.refuseShortly(request, response, routed, refuseForNow("STORE_UNAVAILABLE"));
    if (found.ok) {
      const { tenant = "", keyId } = found.value;
      logged = { ...logged, caller: { tenant, id: keyId } };
      options.onAuthenticated(request);
    }
    const admitted = found.ok ? admit(way, exchange, found.value) : found;
    const isRoom = !admitted.ok || places.take(place);
    if (!admitted.ok || !isRoom) {
      const refusal = admitted.ok ? refuseForNow("STORE_UNAVAILABLE") : admitted.refusal;
      discard(request);
      const answer = refuseCall(routed, refusal);
      write(response, answer, id);
      return options.onCall({ ...logged, refusal }, statusOf(refusal), options.system.now() - startMs);
    }
    const { refusal, requestRef } = await answerCall(way, exchange, admitted.value, id);
    const status = refusal === undefined ? response.statusCode : statusOf(refusal);
    const answered = { ...logged, requestRef, ...(refusal === undefined ? {} : { refusal }) };
    options.onCall(answered, status, options.system.now() - startMs);
  } finally {
    done.isDone = true;
    if (isClosed(response) || response.writableFinished) leave();
  }
}

/** Finds out who asks, in its turn; undefined where too many wait for that. */
async function lookAt({ door, options }: Way, request: Request): Promise<AdminResult<Asker> | undefined> {
  const looked = await door.enter(() =>
    options.wasValid(request)
      ? { isKnown: true }
      : {
          isKnown: false,
          address: options.ownAddressOf(options.addressOf(request).text),
          connection: connectionOf(request),
        },
  );
  if (looked === undefined) return undefined;
  try {
    return await options.authenticate(request);
  } catch (error) {
    options.onFault("admin", error);
    return { ok: false, refusal: refusalOfFault(error) };
  } finally {
    looked();
  }
}

/** Whether somebody who is known may call this RPC, from where the call comes. */
function admit({ options }: Way, { request, routed }: Exchange, asker: Asker): AdminResult<Asker> {
  const { origin } = request.headers;
  if (origin !== undefined && !isOwnOrigin(origin, request.headers)) return refuse("ORIGIN_NOT_ALLOWED", strange);
  const { scope, forOperators: isForOperators } = adminRpcs[routed.handler.method.localName as AdminRpc];
  if (scope !== undefined && !asker.scopes.includes(scope)) return lacking(scope);
  if (isForOperators === true && asker.tenant !== undefined) return forOperators;
  const refusal = options.limit.spend(asker.author.actor);
  return refusal === undefined ? { ok: true, value: asker } : { ok: false, refusal };
}

const strange = { message: "No page but this listener's own may call it." };

/** Reads a call's message and writes its answer; resolves with why it was refused, if it was, and what it was about. */
async function answerCall(
  way: Way,
  { request, response, routed, lasts }: Exchange,
  asker: Asker,
  id: string,
): Promise<Pick<AdminCall, "refusal" | "requestRef">> {
  const { rpcs, deadlines, stopping } = way;
  let body: Uint8Array = new Uint8Array();
  if (request.method !== "GET") {
    const read = await readBody(request, routed.bytesMax, deadlines);
    if (read === undefined) return {};
    if (!(read instanceof Uint8Array)) return { refusal: refuseLate(response, routed, read, id) };
    body = isGrpcWebText(routed.type) ? (fromText(read) ?? notText) : read;
  }
  if (isClosed(response)) return {};
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const signal = AbortSignal.any([gone.signal, stopping.signal]);
  const call: AdminCall = { asker, routed, request, body, signal };
  if (routed.handler.method.methodKind !== "unary") {
    const refusal = await watch(way, call, response, lasts);
    return refusal === undefined ? {} : { refusal };
  }
  const answer = await within(way, call, rpcs.answer(call));
  if (answer === undefined) {
    return {
      requestRef: call.requestRef,
      refusal: refuseLate(response, routed, refusalOfLate({ isHarmlessTwice: false }), id),
    };
  }
  write(response, answer, id);
  return call;
}

function refuseLate(response: Response, routed: Routed, refusal: Refusal, id: string): Refusal {
  write(response, refuseCall(routed, refusal), id);
  return refusal;
}

/** What a promise gives, or undefined where the call's time is over before. */
async function within<T>(
  { deadlines }: Way,
  { request, routed }: AdminCall,
  promise: Promise<T>,
): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const onLate = () => late.resolve(undefined);
  const timeoutMs = timeoutMsOf(request, routed.surface, deadlineMs);
  const timer = timeoutMs < deadlineMs ? setTimeout(onLate, timeoutMs) : undefined;
  if (timer === undefined) deadlines.begin(onLate);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
    deadlines.end(onLate);
  }
}

/** Answers with a stream, as long as somebody takes it. */
async function watch(
  way: Way,
  call: AdminCall,
  response: Response,
  lasts: () => void,
): Promise<AdminRefusal | undefined> {
  const { options, watching, rpcs } = way;
  const taken = watching.take(options.ownAddressOf(options.addressOf(call.request).text));
  if (typeof taken === "string") {
    const refusal = refuseForNow(reasonOf(taken));
    write(response, refuseCall(call.routed, refusal));
    return refusal;
  }
  const ended = new AbortController();
  const signal = AbortSignal.any([call.signal, ended.signal]);
  const cancel = lookAgain(way, call.request, signal, () => ended.abort());
  response.once("close", () => {
    taken.giveBack();
    cancel();
  });
  lasts();
  response.setHeader("cache-control", "no-store");
  await writeAsItComes(response, await rpcs.stream({ ...call, signal }, watchMs));
  return call.refusal;
}

/** Looks every so often whether a stream's key or session still holds, and tells once it does not. Gives what ends that. */
function lookAgain({ options }: Way, request: Request, signal: AbortSignal, onEnd: () => void): () => void {
  let cancel = () => {};
  const look = async () => {
    const found = await options.authenticate(request);
    if (!found.ok) onEnd();
    else if (!signal.aborted) wait();
  };
  const wait = () => {
    cancel = options.system.after(lookAgainMs, () => {
      look().catch((error: unknown) => {
        options.onFault("admin", error);
        onEnd();
      });
    });
  };
  wait();
  return () => cancel();
}
