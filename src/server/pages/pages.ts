/**
 * Paths that are no RPC. A page is read by GET or HEAD: it waits for no body, so a client that never ends its request holds
 * up nothing. What acts, as a provider's report does, has a body: it is read within a budget of its own, and takes one of
 * the places of calls once it is whole.
 */
import type { Result } from "../../otp/reason.ts";
import { peerOf } from "../rpc/authorize.ts";
import { answerPage, type PageAnswer } from "../http/response.ts";
import { connectionOf, type Request, type Response } from "../listener/exchange.ts";
import { createBudget, reasonOf, type Budget } from "../rpc/budget.ts";
import { createDoor, type Door } from "../rpc/door.ts";
import { refusalOfFault, refuseForNow, type ForNow } from "../rpc/faults.ts";
import type { Pages, Shared } from "../rpc/gateway.ts";
import { abandon, answerAtOnce, discard, readBody } from "../http/body.ts";
import { allowing, foldSlashes, methodNotAllowed } from "../rpc/routes.ts";

/** A path of reports that ends in a slash stands for those right below it, too. */
export type PagesByPath = ReadonlyMap<string, Page>;

/** A path that is no RPC: what it answers to, and how. */
export interface Page {
  readonly methods: readonly string[];
  /** True for what everybody may have, whom no proxy keeps from it: it is found behind slashes too many, too. */
  readonly isPublic?: boolean;
  /** True for one that is answered also during a stop: it is asked how things are. */
  readonly isUrgent?: boolean;
  /** True for one that does something: it takes a place as a call does. */
  readonly acts?: boolean;
  /** True for one that looks up what anybody may bring: it waits at the door as a key does, and takes no place. */
  readonly looks?: boolean;
  /** Answers one request, given whole. A refusal is answered as on REST. */
  answer(request: {
    readonly method: string;
    readonly target: string;
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
    /** Empty for GET and HEAD. */
    readonly body: Uint8Array;
    /** The address at the other end of the connection, where it is known. */
    readonly peer: string | undefined;
  }): Promise<Result<PageAnswer>>;
}

/** Bodies of providers' reports that are read at once. Each is here in milliseconds, unless a stranger sends it. */
const reportBodies = { max: 64, perAddressMax: 8 };

/** An answer of more bytes takes its turn: over TLS one of 250 KB takes 2 ms, and a client may ask for 100 at once. */
const bigBytes = 16_384;
// Few wait: each keeps its request, and 1,024 held 13 MiB.
const bigAnswers = { perTurn: 4, looksMax: 4, knownLooksMax: 4, waitingMax: 256 };

const empty = new Uint8Array();

interface Context extends Shared {
  readonly bodies: Budget;
  /** Where big answers wait for their turn, addresses in turn. */
  readonly bigAnswers: Door;
  readonly untilRoom: UntilRoom;
}

/** Takes room for a big answer; where there is none, resolves once it is worth to ask again. */
type UntilRoom = (request: Request, bytes: number) => Promise<void> | undefined;

/** Shows a page to a request whose body is here. */
type Show = (body: Uint8Array) => Promise<void>;

/** Where all reports come to. */
const reports = "/webhooks/";

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

/** The public page that a base URL which ends in a slash leads to. */
function behindSlashes(pages: Pick<PagesByPath, "get">, path: string): Page | undefined {
  const page = path.startsWith("//") ? pages.get(foldSlashes(path)) : undefined;
  return page?.isPublic === true ? page : undefined;
}

function ofReports(pages: Pick<PagesByPath, "get">, path: string): Page | undefined {
  return path.startsWith(reports) ? pages.get(folderOf(path)) : undefined;
}

export function createPages(pages: Pick<PagesByPath, "get">, shared: Shared, untilRoom: UntilRoom): Pages {
  const context = { ...shared, untilRoom, bodies: createBudget(reportBodies), bigAnswers: createDoor(bigAnswers) };
  return (path, request, response) => {
    const page = pages.get(path) ?? behindSlashes(pages, path) ?? ofReports(pages, path);
    return page === undefined ? undefined : receive(context, page, request, response);
  };
}

async function receive(context: Context, page: Page, request: Request, response: Response): Promise<void> {
  const { places, turnAway } = context;
  const method = request.method ?? "";
  if (!page.methods.includes(method)) {
    discard(request);
    const refused = methodNotAllowed(page.methods);
    return turnAway(request, response, refused.refusal, allowing(refused));
  }
  const show: Show = async (body) => {
    const { url: target = "", headers } = request;
    const answer = await page.answer({ method, target, headers, body, peer: peerOf(request) });
    if (!answer.ok) return turnAway(request, response, answer.refusal);
    const { body: given, unchanged } = answer.value;
    const isBig = given.length > bigBytes && unchanged !== true && method !== "HEAD";
    const write = () => answerPage(response, answer.value, method === "HEAD");
    return isBig ? inItsTurn(context, request, response, { bytes: given.length, write }) : write();
  };
  if (places.isDraining && page.isUrgent !== true) return sendAway(context, request, response, "SHUTTING_DOWN");
  if (method !== "GET" && method !== "HEAD") {
    return readAndShow(context, request, response, page.looks === true ? atDoor : withPlace, show);
  }
  return answerAtOnce(request, async () => {
    if (page.acts === true) return withPlace(context, request, response, () => show(empty));
    if (page.looks === true) return atDoor(context, request, response, () => show(empty));
    try {
      await show(empty);
    } catch (error) {
      refuseFault(context, request, response, error);
    }
  });
}

/** Writes a big answer in its address's turn. */
async function inItsTurn(
  { bigAnswers: door, untilRoom, ownAddressOf, turnAway }: Context,
  request: Request,
  response: Response,
  { bytes, write }: { readonly bytes: number; write(): void },
): Promise<void> {
  const given = await door.enter(() => ({
    isKnown: false,
    address: ownAddressOf(request),
    connection: connectionOf(request),
  }));
  if (given === undefined) return turnAway(request, response, refuseForNow("STORE_UNAVAILABLE"));
  try {
    for (let room = untilRoom(request, bytes); room !== undefined; room = untilRoom(request, bytes)) await room;
    write();
  } finally {
    given();
  }
}

/** Reads a body within the budget of them, and lets it in once it is whole. */
async function readAndShow(
  context: Context,
  request: Request,
  response: Response,
  letIn: typeof withPlace,
  show: Show,
): Promise<void> {
  const { bodies, places, turnAway, ownAddressOf, bodyBytesMax, deadlines } = context;
  const grant = bodies.take(ownAddressOf(request));
  if (typeof grant === "string") return sendAway(context, request, response, reasonOf(grant));
  grant.yieldTo(() => abandon(request));
  const place = places.begin();
  try {
    const body = await readBody(request, bodyBytesMax, deadlines);
    if (body === undefined) return;
    if (!(body instanceof Uint8Array)) return turnAway(request, response, body);
    grant.giveBack();
    await letIn(context, request, response, () => show(body), place);
  } finally {
    grant.giveBack();
    places.end(place);
  }
}

async function withPlace(
  context: Context,
  request: Request,
  response: Response,
  act: () => Promise<void>,
  place = context.places.begin(),
): Promise<void> {
  try {
    if (!context.places.take(place)) return sendAway(context, request, response, "STORE_UNAVAILABLE");
    await act();
  } catch (error) {
    refuseFault(context, request, response, error);
  } finally {
    context.places.end(place);
  }
}

/** Shows a page that looks something up in its address's turn. No place of a call is to be had by guessing. */
async function atDoor(context: Context, request: Request, response: Response, act: () => Promise<void>): Promise<void> {
  const { door, ownAddressOf } = context;
  const looked = await door.enter(() => ({
    isKnown: false,
    address: ownAddressOf(request),
    connection: connectionOf(request),
  }));
  if (looked === undefined) return sendAway(context, request, response, "STORE_UNAVAILABLE");
  try {
    await act();
  } catch (error) {
    refuseFault(context, request, response, error);
  } finally {
    looked();
  }
}

/** Sends a request away that may come again a little later. */
function sendAway({ turnAway }: Context, request: Request, response: Response, reason: ForNow): void {
  discard(request);
  turnAway(request, response, refuseForNow(reason));
}

function refuseFault({ turnAway, onFault }: Context, request: Request, response: Response, error: unknown): void {
  onFault(error);
  turnAway(request, response, refusalOfFault(error));
}
