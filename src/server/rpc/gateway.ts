/**
 * The gateway: one HTTP request becomes one call of one RPC, whichever of the four surfaces it came by.
 *
 *   route → method → type → size → key → scope, origin → limits → body → message → the RPC → answer
 *
 * It is a Node adapter of our own, for OtpService alone, in front of Connect's handlers (codecs.ts). Connect's own adapter
 * streams; here every message is small and whole. Since the body is read first, it has one bound for every protocol, and
 * the call's place is others' meanwhile. We answer what Connect would leave empty (405, 415) or mislabel (413 as 429, an
 * undecodable message as 500). A gRPC refusal is Trailers-Only. An answer is written with one call instead of a chunk at a
 * time, which saves a third of the CPU of a call.
 */
import { hasKey, isPublishable } from "../../otp/keys/api-key.ts";
import type { TurnedAway } from "../../observe/turned-away.ts";
import { refuse, type Refusal } from "../../otp/reason.ts";
import { randomText, type System } from "../../system.ts";
import { abandon, discard, hasEndedItsSide, isGone, readBody } from "../http/body.ts";
import type { ClientAddress } from "../http/client-address.ts";
import { createDeadlines, type Deadlines } from "../http/deadlines.ts";
import { isGrpcWebText, timeoutMsOf } from "../http/headers.ts";
import { isClosed, write, type Sendable } from "../http/response.ts";
import { connectionOf, type Request, type RequestHandler, type Response } from "../listener/exchange.ts";
import type { Authorize } from "./authorize.ts";
import { callIdBytes, newCall, type Call, type Late } from "./call.ts";
import { createBudget, reasonOf, type Budget, type Grant } from "./budget.ts";
import { refuseOn, type Codecs } from "./codecs.ts";
import { createCors, methodAskedBy, type Cors } from "./cors.ts";
import { createDoor, Places, type Door, type Looked, type Place } from "./door.ts";
import { refusalOfFault, refuseForNow } from "./faults.ts";
import { fromText, notText } from "./frames.ts";
import { allowing, createRouter, pathOf, type Routed, type Router, type RouteResult } from "./routes.ts";
import type { RpcName } from "./rpcs.ts";
import { createShortRefusals, type RefuseShortly } from "./short-refusals.ts";
import { createTurnAway, type TurnAway } from "./turn-away.ts";
import { createAnswerUnreadable } from "./unreadable.ts";
import { createRefuseUnserved } from "./unserved.ts";

export interface GatewayOptions {
  readonly codecs: Codecs;
  readonly system: System;
  /** Judges a call by its headers. */
  readonly authorize: Authorize["byHeaders"];
  /** Tells whether any active publishable key lists an origin; it may reject. */
  readonly listsOrigin: (origin: string) => Promise<boolean>;
  /** Finds what limits know a client by. */
  readonly addressOf: (request: Request) => ClientAddress;
  /** Finds the address that a client's requests count for, by its whole address; undefined for one that many have. */
  readonly ownAddressOf: (address: string | undefined) => string | undefined;
  /** Tells whether a call brings a secret key that was valid lately, without looking it up. */
  readonly wasValid: (authorization: string | undefined) => boolean;
  /** Makes what answers the paths that are no RPC. */
  readonly pages: (shared: Shared) => Pages;
  /** Gets a request that brought a valid secret key. Everybody can read a publishable one: it proves nobody. */
  readonly onAuthenticated: (request: Request) => void;
  /** The most bytes of a message, headers and envelopes apart. */
  readonly bodyBytesMax: number;
  /** No call lives longer; a client's own deadline may be shorter. */
  readonly deadlineMs: number;
  /** Calls at once; more are refused at once, since whoever takes too many on serves nobody. */
  readonly callsMax: number;
  /** Runs at each call's end, for logs and metrics. */
  readonly onCall: (call: Call, status: number, durationMs: number) => void;
  /** Performs a call that not anybody could make within what traces it, if anything does. */
  readonly traced?: (<T>(call: Call, headers: Request["headers"], perform: () => Promise<T>) => Promise<T>) | undefined;
  /** Gets a request that was refused before it became a call, for logs and metrics. */
  readonly onTurnedAway?: (request: TurnedAway) => void;
  /** Runs for each call for which there was no room, with its RPC, and whether its secret key was valid lately. */
  readonly onNoRoom?: (rpc: string, isKnown: boolean) => void;
  /** Gets a fault of the gateway's own. */
  readonly onFault: (error: unknown) => void;
}

export interface Gateway extends RequestHandler {
  readonly turnAway: TurnAway;
}

/** What calls and pages share. */
export interface Shared {
  readonly places: Places;
  /** Where whoever is not known waits to be looked up. */
  readonly door: Door;
  readonly turnAway: TurnAway;
  /** Finds the address that a client's bodies count for; undefined for one that many have. */
  readonly ownAddressOf: (request: Request) => string | undefined;
  readonly bodyBytesMax: number;
  /** How long a body may take. */
  readonly deadlines: Deadlines;
  /** Gets a fault that callers hear nothing of. */
  readonly onFault: (error: unknown) => void;
}

/** Answers a request to a path that is no RPC; undefined where the path is none of its own. `lasts` as in `RequestHandler`. */
export type Pages = (
  path: string,
  request: Request,
  response: Response,
  lasts: () => void,
) => Promise<void> | undefined;

/** Calls begun in one turn of the event loop: 5 to 10 ms of work. */
const callsPerTurn = 32;
/** Keys of callers who are not known that are looked up at once. */
const looksMax = 64;
/** What all pages together have of the calls at once, and of that each address. */
const pageCallsOf = (callsMax: number) => ({ max: Math.ceil(callsMax / 2), perAddressMax: 32 });

/** What every request is taken through. */
interface Way extends Shared {
  readonly options: GatewayOptions;
  readonly newId: () => string;
  readonly pages: Pages;
  readonly router: Router;
  readonly cors: Cors;
  readonly refuseShortly: RefuseShortly;
  /** Calls of pages under way. */
  readonly pageCalls: Budget;
  /** Bodies of calls with a secret key that are being read: of each tenant, by the addresses it calls from. */
  readonly secretBodies: Budget;
}

export function createGateway(options: GatewayOptions): Gateway {
  const { codecs, system, bodyBytesMax, deadlineMs, callsMax, onFault } = options;
  const newId = () => randomText(system, callIdBytes);
  const turnAway = createTurnAway(newId, options.onTurnedAway);
  const places = new Places(callsMax);
  const pageCalls = createBudget(pageCallsOf(callsMax));
  const ownAddressOf = (request: Request) => options.ownAddressOf(options.addressOf(request).text);
  const door = createDoor({ perTurn: callsPerTurn, looksMax, knownLooksMax: callsMax, waitingMax: callsMax });
  const deadlines = createDeadlines(deadlineMs);
  const shared: Shared = { places, door, turnAway, ownAddressOf, bodyBytesMax, deadlines, onFault };
  const originLooks = createBudget(pageCallsOf(callsMax));
  const cors = createCors({ ...shared, pageCalls, originLooks, listsOrigin: options.listsOrigin });
  const way: Way = {
    ...shared,
    options,
    newId,
    pages: options.pages(shared),
    router: createRouter(codecs.handlers, bodyBytesMax),
    cors,
    refuseShortly: createShortRefusals(cors.mark),
    pageCalls,
    secretBodies: createBudget({ max: callsMax }),
  };

  return {
    handle: serve.bind(undefined, way),
    refuseUnserved: createRefuseUnserved(turnAway),
    answerUnreadable: createAnswerUnreadable(newId, options.onTurnedAway),
    turnAway,
    drain: () => places.drain(),
  };
}

/** Takes a request to what answers it: a call, a page, or a refusal that costs little. Never rejects. */
async function serve(way: Way, request: Request, response: Response, lasts = noMatter): Promise<void> {
  const { places, router, cors } = way;
  try {
    const path = pathOf(request);
    const asked = request.method === "OPTIONS" ? methodAskedBy(request) : undefined;
    if (asked !== undefined && router.knows(asked, path)) return await cors.preflight(request, response);
    const routed = router.route(request, path);
    // No page has an RPC's path.
    const page = routed.ok ? undefined : way.pages(path, request, response, lasts);
    if (page !== undefined) return await page;
    if (!routed.ok || routed.refusal !== undefined) return await turnAwayMarked(way, request, response, routed);
    if (!hasKey(request.headers.authorization) && !places.isDraining) {
      return await refuseKeyless(way, request, response, routed);
    }
    if (places.isFull()) return await refuseForWantOfRoom(way, request, response, routed);
    return await serveCall(way, request, response, routed);
  } catch (error) {
    way.onFault(error);
    if (!response.headersSent) way.turnAway(request, response, refuse("INTERNAL").refusal);
  }
}

const noMatter = () => {};

/** Turns a request away whose first lines are enough for that. */
async function turnAwayMarked(
  { cors, turnAway }: Way,
  request: Request,
  response: Response,
  routed: RouteResult,
): Promise<void> {
  discard(request);
  await cors.mark(request, response);
  const { refusal = refuse("INTERNAL").refusal } = routed;
  turnAway(request, response, refusal, routed.ok ? { surface: routed.surface } : allowing(routed));
}

/** Refuses a call that nobody can be behind: it costs us nothing but the answer, whatever else is going on. */
async function refuseKeyless(way: Way, request: Request, response: Response, routed: Routed): Promise<void> {
  const { system, onCall } = way.options;
  const startMs = system.now();
  const call = callOf(way, request, routed);
  call.refusal = refuse("API_KEY_MISSING").refusal;
  const status = await way.refuseShortly(request, response, routed, call.refusal, call.id);
  onCall(call, status, system.now() - startMs);
}

async function refuseForWantOfRoom(way: Way, request: Request, response: Response, routed: Routed): Promise<void> {
  way.options.onNoRoom?.(routed.handler.method.name, way.options.wasValid(request.headers.authorization));
  await way.refuseShortly(request, response, routed, refuseForNow("STORE_UNAVAILABLE"));
}

/** Lets a call in by the door, and writes its answer. */
async function serveCall(way: Way, request: Request, response: Response, routed: Routed): Promise<void> {
  const { system, onCall, wasValid } = way.options;
  const call = callOf(way, request, routed);
  const startMs = system.now();
  const place = way.places.begin();
  // One that waits for its turn was there before a stop that begins meanwhile.
  const refusal = way.places.isDraining ? refuseForNow("SHUTTING_DOWN") : undefined;
  const entry: Entry = { call, place, refusal, looked: () => {}, isDone: false };
  response.on("close", () => {
    if (entry.isDone) leave(way, entry);
    else giveUp(call, "the client is gone");
  });
  try {
    const entered = way.door.enter(() => {
      const isKnown = wasValid(request.headers.authorization);
      return isKnown ? { isKnown } : { isKnown, address: way.ownAddressOf(request), connection: connectionOf(request) };
    });
    const looked = typeof entered === "function" ? entered : await entered;
    if (looked === undefined) return refuseForWantOfRoom(way, request, response, routed);
    entry.looked = looked;
    const answer = await perform(way, request, response, routed, entry);
    if (answer === undefined) return;
    if (hasEndedItsSide(request)) call.isCanceled = true;
    write(response, answer, call.id);
    onCall(call, answer.status, system.now() - startMs);
    // It is for its client to take the answer now.
    entry.grant?.yieldTo(() => abandon(request));
  } finally {
    entry.isDone = true;
    // One that was let in keeps its place until its answer was taken; a refusal must not cost a stranger's neighbours any.
    // In front of a tunnel a request does not hear that its client has left, and its answer does.
    if (!call.reached || isGone(request) || isClosed(response)) leave(way, entry);
  }
}

/** A call with what it holds. */
interface Entry {
  readonly call: Call;
  readonly place: Place;
  /** Why it is refused whatever it brings. */
  readonly refusal: Refusal | undefined;
  /** What it has of the calls of pages, where it is a page's. */
  grant?: Grant;
  /** To be run once the call's key was looked at. */
  looked: Looked;
  /** True once there is an answer, or will be none. */
  isDone: boolean;
}

function leave({ places }: Way, { call, place, grant }: Entry): void {
  places.end(place);
  if (grant === undefined) return;
  const giveBack = () => grant.giveBack();
  // What it has begun goes on where its client has left. Else an address would have as much of that under way as it likes.
  if (call.performed === undefined) return giveBack();
  // Its connection may carry other calls by now.
  grant.yieldTo(noMatter);
  void call.performed.then(giveBack);
}

function giveUp(call: Call, why: Late): void {
  call.late ??= why;
  call.onLate?.(why);
}

function callOf({ newId }: Way, { headers }: Request, { handler, surface }: Routed): Call {
  return newCall(newId(), surface, handler.method.name as RpcName, headers["idempotency-key"] as string | undefined);
}

/** Takes a call to its answer; undefined when the client has gone. */
async function perform(
  way: Way,
  request: Request,
  response: Response,
  routed: Routed,
  entry: Entry,
): Promise<Sendable | undefined> {
  const { traced } = way.options;
  const { call } = entry;
  const refusal = await refusalAtDoor(way, request, entry);
  if (request.headers.origin !== undefined) await way.cors.mark(request, response, call.caller);
  const goOn = async () => {
    if (refusal === undefined) return performLetIn(way, request, routed, entry);
    discard(request);
    return refuseOn(routed, call, refusal);
  };
  // Anybody could have any number of spans otherwise.
  const isAnybodys = call.caller === undefined || (refusal !== undefined && isPublishable(call.caller.kind));
  return traced === undefined || isAnybodys ? goOn() : traced(call, request.headers, goOn);
}

/** The same of a call that was let in. */
async function performLetIn(way: Way, request: Request, routed: Routed, entry: Entry): Promise<Sendable | undefined> {
  const { codecs, deadlineMs, system } = way.options;
  const { call } = entry;
  let { body = empty } = routed;
  if (routed.body === undefined && request.method !== "GET") {
    const startMs = system.now();
    const read = await readWithoutPlace(way, request, entry, routed.bytesMax);
    call.bodyMs = system.now() - startMs;
    if (read === undefined) return undefined;
    if (!(read instanceof Uint8Array)) {
      call.isClientLate = read.reason === "DEADLINE";
      return refuseOn(routed, call, read);
    }
    body = isGrpcWebText(routed.type) ? (fromText(read) ?? notText) : read;
  }
  const timeoutMs = timeoutMsOf(request, routed.surface, deadlineMs);
  const onLate = () => {
    call.isClientLate = timeoutMs < deadlineMs;
    giveUp(call, "the deadline has passed");
  };
  if (timeoutMs < 1) {
    call.isClientLate = true;
    return refuseOn(routed, call, noTime);
  }
  const timer = timeoutMs < deadlineMs ? setTimeout(onLate, timeoutMs) : undefined;
  if (timer === undefined) way.deadlines.begin(onLate);
  try {
    return await codecs.answer(call, routed, request, body);
  } finally {
    clearTimeout(timer);
    way.deadlines.end(onLate);
  }
}

const empty = new Uint8Array();
/** A text that would be sent, and nobody would hear of. */
const noTime = refuse("DEADLINE", {
  message: "The deadline is less than 1 ms, so the call was not begun. It had no effect.",
}).refusal;

/** What the headers are enough to refuse. Whoever is let in has a place from then on. */
async function refusalAtDoor(way: Way, request: Request, entry: Entry): Promise<Refusal | undefined> {
  const { options, places } = way;
  const { call, place, refusal, looked } = entry;
  try {
    if (refusal !== undefined) return refusal;
    const { key, address, refusal: unauthorized } = await options.authorize(request, call.rpc);
    if (key !== undefined) {
      call.caller = key;
      if (!isPublishable(key.kind)) options.onAuthenticated(request);
    }
    if (unauthorized !== undefined) return unauthorized;
    call.address = address;
    if (!places.take(place)) return refuseForNow("STORE_UNAVAILABLE");
    return key !== undefined && isPublishable(key.kind) ? takeGrant(way, entry) : undefined;
  } catch (error) {
    options.onFault(error);
    return refusalOfFault(error);
  } finally {
    if (call.caller === undefined) call.isKnown = options.wasValid(request.headers.authorization);
    looked();
  }
}

/**
 * Calls of pages have a budget of their own within the calls at once, from before their body is read until their answer
 * was taken and what they began is done: everybody can copy a page's key.
 */
function takeGrant({ pageCalls, options }: Way, entry: Entry): Refusal | undefined {
  const { address } = entry.call;
  const grant = pageCalls.take(address === undefined ? undefined : options.ownAddressOf(address.text));
  if (typeof grant === "string") return refuseForNow(reasonOf(grant));
  entry.grant = grant;
  return undefined;
}

/** Reads a call's body. Its place is others' meanwhile, and taken again once the body is whole. */
async function readWithoutPlace(
  way: Way,
  request: Request,
  { call, place, grant: page }: Entry,
  bytesMax: number,
): Promise<Uint8Array | Refusal | undefined> {
  const { places, deadlines, ownAddressOf } = way;
  // A page's call is within its grant.
  const grant = page ?? way.secretBodies.take(ownAddressOf(request), call.caller?.tenant);
  if (typeof grant === "string") {
    discard(request);
    return refuseForNow("STORE_UNAVAILABLE");
  }
  places.lend(place);
  grant.yieldTo(() => abandon(request));
  const read = await readBody(request, bytesMax, deadlines);
  grant.keep();
  if (page === undefined) grant.giveBack();
  return !(read instanceof Uint8Array) || places.take(place) ? read : refuseForNow("STORE_UNAVAILABLE");
}
