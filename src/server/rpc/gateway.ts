/**
 * The gateway: one HTTP request becomes one call of one RPC, whichever of the four surfaces it came by.
 *
 *   route → method → type → size → key → scope, origin → body → the RPC (rpcs.ts) → answer
 *
 * Connect's handlers do all the protocol work; this is the Node adapter in front of them. It is not connect-node's own,
 * because every OtpService message is small and whole: reading the body here puts one bound on it for every protocol,
 * answers what Connect would leave empty (405, 415) or mislabel (413 as 429, an undecodable message as 500), and writes
 * an answer with one call instead of a chunk at a time, which saves a third of the CPU of a call.
 */
import { createContextValues } from "@connectrpc/connect";
import { hasKey, isPublishable } from "../../otp/api-key.ts";
import type { TurnedAway } from "../../observe/turned-away.ts";
import { invalid, ok, refuse, type Refusal } from "../../otp/reason.ts";
import { StoreUnavailable } from "../../store/store.ts";
import type { System } from "../../system.ts";
import { gather, write, type Sendable } from "../http/response.ts";
import type { Request, RequestHandler, Response } from "../listener/exchange.ts";
import type { Admit } from "./authorize.ts";
import { createBudget, reasonOf, type Share } from "./budget.ts";
import type { ClientAddress } from "../http/client-address.ts";
import { ClientGone, Late, type Call } from "./call.ts";
import { isPreflight, type Cors } from "../http/cors.ts";
import { undecodableQuery, whyRefused } from "./decoding.ts";
import { createDoor, type Looked, type Waiting } from "./door.ts";
import { asText, fromText, notText, unwrap } from "./frames.ts";
import { isGrpcWebText } from "../http/media-type.ts";
import { createPageAnswers } from "./page-answers.ts";
import { createPlaces, retryAfterMs, type Place, type Places } from "./places.ts";
import { abandon, alone, discard, isGone, readBody } from "../http/body.ts";
import { headersOf, timeoutMsOf } from "../http/headers.ts";
import { codeSaid, refusalOn } from "./refused.ts";
import { allowing, createRouter, pathOf, type Routed } from "./route.ts";
import { callKey, type Rpcs } from "./rpcs.ts";
import { createShortRefusals } from "./short-refusals.ts";
import { httpStatus } from "./errors.ts";
import { createAnswerUnreadable } from "./unreadable.ts";
import { createTurnAway, newCallId, type TurnAway } from "./turn-away.ts";

export interface GatewayOptions {
  readonly rpcs: Rpcs;
  readonly system: System;
  /** Judges a call by its headers. */
  readonly admit: Admit;
  readonly cors: Cors;
  /** Finds what limits know a client by. */
  readonly addressOf: (request: Request) => ClientAddress;
  /** Finds the address whose share a client's requests count in, by its whole address; undefined for one that many have. */
  readonly shareOf: (address: string | undefined) => string | undefined;
  /** Tells whether a call brings a secret key that was valid lately, without looking it up. */
  readonly wasValid: (authorization: string | undefined) => boolean;
  /** Makes what answers the paths that are no RPC, of the same house. */
  readonly pages: (house: House) => Pages;
  /** Told of a request that brought a valid secret key. Everybody can read a publishable one: it proves nobody. */
  readonly onAuthenticated: (request: Request) => void;
  /** The most bytes of a message, headers and envelopes apart. */
  readonly bodyBytesMax: number;
  /** No call lives longer; a client's own deadline may be shorter. */
  readonly deadlineMs: number;
  /** Calls at once; more are refused at once, since a full house serves nobody. */
  readonly callsMax: number;
  /** Told of each call's end, for logs and metrics. */
  readonly onCall: (call: Call, status: number, durationMs: number) => void;
  /** Performs a call within what traces it, if anything does. */
  readonly traced?: (<T>(call: Call, headers: Request["headers"], perform: () => Promise<T>) => Promise<T>) | undefined;
  /** Told of a request that was refused before it became a call, for logs and metrics. */
  readonly onTurnedAway?: (request: TurnedAway) => void;
  /** Told of each call for which there was no room, by its RPC. */
  readonly onNoRoom?: (rpc: string) => void;
  /** Told of a fault of the gateway's own. */
  readonly onFault: (error: unknown) => void;
}

export interface Gateway extends RequestHandler {
  readonly turnAway: TurnAway;
}

/** What calls and pages share. */
export interface House {
  readonly places: Places;
  readonly turnAway: TurnAway;
  /** Finds the address whose share a client's bodies count in; undefined for one that many have. */
  readonly shareOf: (request: Request) => string | undefined;
  readonly bodyBytesMax: number;
  /** How long a body may take. */
  readonly bodyMs: number;
  /** Makes what a caller is told of a fault that only the operator is to know. */
  readonly faultRefusal: (error: unknown) => Refusal;
}

/** Answers a request to a path that is no RPC; undefined where the path is none of its own. */
export type Pages = (request: Request, response: Response) => Promise<void> | undefined;

/** Calls begun in one turn of the event loop: 5 to 10 ms of work. */
const callsPerTurn = 32;
/** Keys of callers who are not known that are looked up at once. */
const looksMax = 64;
/** What all pages together have of the calls at once, and of that each address. */
const pageCallsOf = (callsMax: number) => ({ max: Math.ceil(callsMax / 2), perAddressMax: 32 });

export function createGateway(options: GatewayOptions): Gateway {
  const { rpcs, system, admit, cors, onAuthenticated, bodyBytesMax, deadlineMs, callsMax, traced, onCall, onFault } =
    options;
  const router = createRouter(rpcs.handlers, bodyBytesMax);
  const turnAway = createTurnAway(system, options.onTurnedAway);
  const places = createPlaces(callsMax);
  const pageCalls = createBudget(pageCallsOf(callsMax));
  const secretBodies = createBudget({ max: callsMax });
  const shareOfClient = (request: Request) => options.shareOf(options.addressOf(request).text);
  const door = createDoor({ perTurn: callsPerTurn, looksMax, knownLooksMax: callsMax, waitingMax: callsMax });
  const { mark, preflight } = createPageAnswers({
    cors,
    places,
    pageCalls,
    originLooks: createBudget(pageCallsOf(callsMax)),
    turnAway,
    shareOf: shareOfClient,
    onFault,
    faultRefusal,
  });
  const refuseShortly = createShortRefusals(mark);
  const pages = options.pages({
    places,
    turnAway,
    shareOf: shareOfClient,
    bodyBytesMax,
    bodyMs: deadlineMs,
    faultRefusal,
  });

  function refuseExpectation(request: Request, response: Response): void {
    discard(request);
    const { refusal } = invalid(undefined, "Of what Expect may ask, 100-continue alone is served.");
    turnAway(request, response, refusal, { status: 417 });
  }

  function handle(request: Request, response: Response): void {
    serve(request, response).catch((error: unknown) => {
      onFault(error);
      if (!response.headersSent) turnAway(request, response, refuse("INTERNAL").refusal);
    });
  }

  async function serve(request: Request, response: Response): Promise<void> {
    const page = pages(request, response);
    if (page !== undefined) return page;
    if (isPreflight(request) && router.knows(request.headers["access-control-request-method"] ?? "", pathOf(request))) {
      return preflight(request, response);
    }
    const routed = router.route(request);
    const { refusal } = routed;
    if (refusal !== undefined) {
      discard(request);
      await mark(request, response);
      return turnAway(request, response, refusal, routed.ok ? { surface: routed.surface } : allowing(routed));
    }
    if (!routed.ok) throw new Error("a request that leads nowhere has its refusal");
    if (!hasKey(request.headers.authorization) && !places.isDraining) return refuseKeyless(request, response, routed);
    if (places.isFull) return refuseForWantOfRoom(request, response, routed);
    const { call, giveUp } = newCall(request, routed);
    const startMs = system.now();
    const place = places.begin();
    const entry: Entry = { call, giveUp, place, looked: () => {} };
    try {
      // One that waits for its turn was there before a stop that begins meanwhile.
      if (places.isDraining) call.refusedAtGate = refuse("SHUTTING_DOWN", { retryAfterMs }).refusal;
      const entered = door.enter(() => waitingOf(request));
      const looked = typeof entered === "function" ? entered : await entered;
      if (looked === undefined) return refuseForWantOfRoom(request, response, routed);
      entry.looked = looked;
      const performed = () => perform(request, response, routed, entry);
      const answer = await (traced === undefined ? performed() : traced(call, request.headers, performed));
      if (answer !== undefined) {
        write(response, answer, call.id);
        onCall(call, answer.status, system.now() - startMs);
        // It is for its client to take the answer now.
        entry.share?.yieldTo(() => abandon(request));
      }
    } finally {
      // One that was let in keeps its place until its answer was taken; a refusal must not cost a stranger's neighbours any.
      if (call.reached && !isGone(request)) response.once("close", () => leave(entry));
      else leave(entry);
    }
  }

  /** Refuses a call that nobody can be behind: it costs us nothing but the answer, whatever else is going on. */
  async function refuseKeyless(request: Request, response: Response, routed: Routed): Promise<void> {
    const startMs = system.now();
    const { call } = newCall(request, routed);
    call.refusal = refuse("API_KEY_MISSING").refusal;
    const status = await refuseShortly(request, response, routed, call.refusal, call.id);
    onCall(call, status, system.now() - startMs);
  }

  async function refuseForWantOfRoom(request: Request, response: Response, routed: Routed): Promise<void> {
    options.onNoRoom?.(routed.handler.method.name);
    await refuseShortly(request, response, routed, refuse("STORE_UNAVAILABLE", { retryAfterMs }).refusal);
  }

  /** Whose turn a call waits for, until its key was looked at. */
  function waitingOf(request: Request): Waiting {
    const isKnown = options.wasValid(request.headers.authorization);
    return isKnown ? { isKnown } : { isKnown, address: shareOfClient(request) };
  }

  /** Makes the call of a request, and what gives up on it. */
  function newCall({ headers }: Pick<Request, "headers">, { handler, surface }: Routed): NewCall {
    const { promise: late, reject } = Promise.withResolvers<never>();
    // Nobody need be waiting when it happens.
    late.catch(() => {});
    const call: Call = {
      id: newCallId(system),
      surface,
      rpc: handler.method.name,
      reached: false,
      idempotencyKey: headers["idempotency-key"] as string | undefined,
      isReplayed: false,
      late,
    };
    return { call, giveUp: reject };
  }

  /** Takes a routed request to its answer; undefined when the client has gone. */
  async function perform(
    request: Request,
    response: Response,
    routed: Routed,
    entry: Entry,
  ): Promise<Sendable | undefined> {
    const { surface, type } = routed;
    const { call, giveUp } = entry;
    const refusal = (await refusalAtDoor(request, response, entry)) ?? takeShare(entry);
    let body: Uint8Array = routed.body ?? empty;
    if (refusal !== undefined) {
      call.refusedAtGate = refusal;
      discard(request);
    } else if (routed.body === undefined && request.method !== "GET") {
      const read = await readWithoutPlace(request, entry, routed.bytesMax);
      if (read === undefined) return undefined;
      if (read instanceof Uint8Array) body = isGrpcWebText(type) ? (fromText(read) ?? notText) : read;
      else call.refusedAtGate = read;
    }
    const onClose = () => giveUp(new ClientGone("the client is gone"));
    response.once("close", onClose);
    const timer = setTimeout(
      () => giveUp(new Late("the deadline has passed")),
      timeoutMsOf(request, surface, deadlineMs),
    );
    try {
      return await invoke(request, routed, call, body);
    } finally {
      clearTimeout(timer);
      response.off("close", onClose);
    }
  }

  /**
   * A page's callers have a share of the calls at once, and each address a small one of that, from before their body is
   * read until their answer was taken: everybody can copy a page's key.
   */
  function takeShare(entry: Entry): Refusal | undefined {
    const { caller, address } = entry.call;
    if (caller === undefined || !isPublishable(caller.kind)) return undefined;
    const share = pageCalls.take(address === undefined ? undefined : options.shareOf(address.text));
    if (typeof share === "string") return refuse(reasonOf(share), { retryAfterMs }).refusal;
    entry.share = share;
    return undefined;
  }

  /** Reads a call's body. Its place is others' meanwhile, and taken again once the body is whole. */
  async function readWithoutPlace(
    request: Request,
    { place, share }: Entry,
    bytesMax: number,
  ): Promise<Uint8Array | Refusal | undefined> {
    // A page's call has its share of them.
    const bodyRead = share ?? secretBodies.take();
    if (typeof bodyRead === "string") {
      discard(request);
      return refuse(reasonOf(bodyRead), { retryAfterMs }).refusal;
    }
    place.lend();
    const read = await readBody(request, bytesMax, deadlineMs);
    if (bodyRead !== share) bodyRead.giveBack();
    if (read === "too large") return refuse("BODY_TOO_LARGE").refusal;
    if (read === "too slow") return refuse("DEADLINE").refusal;
    return read === undefined || place.take() ? read : refuse("STORE_UNAVAILABLE", { retryAfterMs }).refusal;
  }

  /** Performs the RPC over a whole message, and brings Connect's answer to what the surface shows. */
  async function invoke(
    request: Pick<Request, "method" | "httpVersion" | "headers">,
    routed: Routed,
    call: Call,
    body: Uint8Array,
  ): Promise<Sendable> {
    const { handler, surface, type, url } = routed;
    if (surface === "rest") return rpcs.rest(call, body);
    const isGet = request.method === "GET";
    const message = isGet ? ok(body) : unwrap(surface, request.headers, body, bodyBytesMax);
    if (!message.ok) call.refusedAtGate ??= message.refusal;
    if (call.refusedAtGate !== undefined) return refuseOn(routed, call, call.refusedAtGate);
    const late = new AbortController();
    call.late.catch((why: unknown) => late.abort(why));
    const answer = await handler({
      httpVersion: request.httpVersion,
      method: request.method ?? "POST",
      url,
      header: headersOf(request, surface),
      body: alone(body),
      signal: late.signal,
      contextValues: createContextValues().set(callKey, call),
    });
    const whole = await gather(answer);
    if (call.refusal === undefined && !call.reached) {
      // Connect could not read the message, and says so in words that may quote it. Say it in ours instead.
      const said = codeSaid(surface, whole);
      const why = isGet || !message.ok ? undecodableQuery(said) : whyRefused(handler.method, type, message.value, said);
      return refuseOn(routed, call, why);
    }
    if (surface === "connect" && call.refusal !== undefined) return { ...whole, status: httpStatus(call.refusal) };
    return isGrpcWebText(type) ? asText(whole) : whole;
  }

  /** Answers a call that is refused before its message was decoded. */
  function refuseOn({ surface, type }: Routed, call: Call, refusal: Refusal): Sendable {
    call.refusal = refusal;
    return refusalOn(surface, type, refusal);
  }

  /** What can be refused by the headers alone. Whoever is let in has a place from then on. */
  async function refusalAtDoor(
    request: Request,
    response: Response,
    { call, place, looked }: Entry,
  ): Promise<Refusal | undefined> {
    try {
      if (request.headers.origin !== undefined) await mark(request, response);
      if (call.refusedAtGate !== undefined) return call.refusedAtGate;
      const { key, result } = await admit(request, call.rpc);
      if (key !== undefined) {
        call.caller = key;
        if (!isPublishable(key.kind)) onAuthenticated(request);
      }
      if (!result.ok) return result.refusal;
      call.address = result.value.address;
      return place.take() ? undefined : refuse("STORE_UNAVAILABLE", { retryAfterMs }).refusal;
    } catch (error) {
      return faultRefusal(error);
    } finally {
      looked();
    }
  }

  /** What a caller is told of a fault that only the operator is to know. */
  function faultRefusal(error: unknown): Refusal {
    onFault(error);
    const isStore = error instanceof StoreUnavailable;
    return (isStore ? refuse("STORE_UNAVAILABLE", { retryAfterMs }) : refuse("INTERNAL")).refusal;
  }

  const answerUnreadable = createAnswerUnreadable(system, options.onTurnedAway);
  return { handle, refuseExpectation, answerUnreadable, turnAway, drain: places.drain };
}

const empty = new Uint8Array();

/** A call, and what gives up on it: it is late from then on. */
interface NewCall {
  readonly call: Call;
  readonly giveUp: (why: Late) => void;
}

/** A call with what it holds of the house. */
interface Entry extends NewCall {
  readonly place: Place;
  /** A page's share, where it is a page's call. */
  share?: Share;
  /** To be run once the call's key was looked at. */
  looked: Looked;
}

function leave({ place, share }: Entry): void {
  place.end();
  share?.giveBack();
}
