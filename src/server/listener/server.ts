/**
 * The listener: HTTP/1.1 and HTTP/2 on one port. Without TLS a connection's first bytes tell them apart: a client that
 * speaks HTTP/2 opens with a fixed preface, and everything else is HTTP/1.1. With a certificate the two sides agree in
 * the handshake (ALPN).
 *
 * By hand, because the library for it loses the slow-loris timeouts, the peer's address on HTTP/2 and a clean close.
 */
import { createServer as createHttp1Server, setMaxIdleHTTPParsers, type Server as Http1Server } from "node:http";
import { constants, createSecureServer, type Http2SecureServer } from "node:http2";
import { Server as NetServer, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createCertificateInUse, type Certificate, type CertificateInUse } from "./certificate.ts";
import { isOver, tunnelCode, type Request, type RequestHandler, type Response, type Unserved } from "./exchange.ts";
import type { ConnectionLimits } from "./connection-limits.ts";
import type { Connections } from "./connections.ts";
import { createHttp2, telling, type Http2Limits, type Http2Listeners, type OnRequest } from "./http2.ts";
import { createPipelines, type Pipelines } from "./pipeline.ts";
import { afterSteps, createUntilQuiet, takeFewer, untilRead } from "./stop-steps.ts";
import { tellApart } from "./tell-apart.ts";
import { whyNotBound, type Variables } from "./why-not-bound.ts";
import { Wire } from "./wire.ts";

export interface ServerOptions {
  readonly handler: RequestHandler;
  readonly connections: Connections;
  readonly host: string;
  /** 0 for one that is free. */
  readonly port: number;
  /** What operators set these by, for the sentence that says why an address cannot be had. */
  readonly variables?: Variables;
  /** Reads the certificate chain and its key, both PEM; absent for cleartext. It may throw. */
  readonly readCertificate?: (() => Certificate) | undefined;
  readonly limits?: ServerLimits;
  /** Runs when the address is ours, and before the server counts as started. */
  readonly onBound?: (address: Address) => Promise<void>;
  readonly onFault: (error: unknown) => void;
}

export interface Address {
  readonly scheme: "http" | "https";
  readonly host: string;
  readonly port: number;
}

export interface RunningServer extends Address {
  /** Reads the certificate again; connections from now on get the new one. Throws, and keeps the old one, if it is no good. */
  reloadCertificate(): void;
  /** Takes no more connections, lets calls under way finish, then closes what is left after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

/** What one connection may do. */
export interface ServerLimits extends Http2Limits {
  /** A request's headers, a whole request, and a TLS handshake from its first byte on must be here by then. */
  readonly requestMs: number;
  /** How often that is looked at on HTTP/1. */
  readonly checkMs: number;
  /** Requests under way on one HTTP/1 connection; the next one is read when an answer was taken. */
  readonly pipelinedMax: number;
}

export const serverLimits: ServerLimits = {
  requestMs: 15_000,
  checkMs: 1_000,
  headerBytesMax: 16_384,
  headersMax: 100,
  pipelinedMax: 16,
  streamsMax: 100,
};

/** How connections are limited by default; the rest is the operator's. */
export const connectionLimits: Omit<ConnectionLimits, "idleMs" | "maxAgeMs" | "connectionsMax"> = {
  halfOpenMs: 15_000,
  strangerIdleMs: 60_000,
  endedMs: 1_000,
  // The body's 15 s, the call's own 15 s, and as long again for an answer of a few hundred bytes.
  callMs: 45_000,
  // A TLS handshake and the first call, by a phone in the countryside.
  newcomerMs: 5_000,
  tickMs: 500,
};

/** At a stop, for how long new calls on old connections are told why they are refused, before they are just not taken. */
const refusalsMs = 300;
/** Connections that wait to be taken. Beyond this, or the system's own bound, a client is left to try again. */
const backlogMax = 4_096;
/** At a stop, how long strangers have to end a request that they began, and to take what they were given. */
const undoneMs = 1_000;
/** How long last answers have to leave, and clients to close in their own time. */
const lastAnswersMs = 1_000;

/** A parser that is kept for the next connection keeps what it has of half a head, up to the most that a head may have. */
const parsersKept = 64;
/** Once so much was read and is not parsed yet, no more is read. */
const readAheadBytes = 16_384;

const http1Options = ({ requestMs, checkMs, headerBytesMax }: ServerLimits) => ({
  headersTimeout: requestMs,
  requestTimeout: requestMs,
  connectionsCheckingInterval: checkMs,
  // Idle connections are looked after by connections.ts.
  keepAliveTimeout: 0,
  requireHostHeader: false,
  maxHeaderSize: headerBytesMax,
  highWaterMark: readAheadBytes,
});

/** Starts to listen. Rejects when the address cannot be had. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { handler, connections, host, readCertificate, onFault, limits = serverLimits } = options;

  setMaxIdleHTTPParsers(parsersKept);
  const pipelines = createPipelines(limits.pipelinedMax, connections);
  const begin = beginCall.bind(undefined, connections, pipelines);

  function take(how: OnRequest, request: Request, response: Response): void {
    // A client may open and reset streams by the hundred in one piece: it has been charged for that (connections.ts).
    if ("stream" in request && isOver(request.stream)) return;
    connections.asked(request);
    if (connections.isSated(request)) setImmediate(beginOrRefuse, how, request, response);
    else begin(how, request, response);
  }

  /** A turn later, when whoever takes answers has taken some. */
  function beginOrRefuse(how: OnRequest, request: Request, response: Response): void {
    // To a client this means that it may try again, since nothing was done.
    if ("stream" in request && connections.isSated(request)) request.stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else begin(how, request, response);
  }

  // Node's error has the bytes that it is about, 64 KiB or so, and the answer may have to wait.
  const onUnreadable: RequestHandler["answerUnreadable"] = ({ code }, socket) =>
    pipelines.answerLast(socket, () => handler.answerUnreadable({ code }, socket));
  const tunnelBegan = (request: Request, socket: Socket) => {
    connections.asked(request);
    onUnreadable({ code: tunnelCode }, socket);
  };
  const ofRequests = listenersOf(handler, limits, take, tunnelBegan);
  const takeHttp2 = createHttp2(limits, ofRequests, connections);
  const listeners = { ...ofRequests, takePiecewise: pipelines.take, takeHttp2, onUnreadable };
  const certificate = readCertificate && createCertificateInUse(readCertificate);
  const listener =
    certificate === undefined
      ? cleartext(connections, listeners, limits)
      : secure(connections, listeners, limits, certificate);
  const untilQuiet = createUntilQuiet(listener);

  const scheme = readCertificate === undefined ? "http" : "https";
  await listen(listener, options, scheme);
  listener.on("error", onFault);
  const { port } = listener.address() as AddressInfo;
  return {
    scheme,
    host,
    port,
    reloadCertificate() {
      if (certificate !== undefined) (listener as Http2SecureServer).setSecureContext(certificate.read());
    },
    async stop(graceMs) {
      // Those who listen move on; what was sent before the stop is still taken.
      connections.retireAll();
      takeFewer(listener);
      await untilQuiet();
      // node:http's own close() would at once cut idle connections on which a call may be on its way.
      const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(listener, () => resolve()));
      const readMs = await untilRead(connections.newcomersWaiting);
      connections.retireAll();
      const over = new AbortController();
      void afterSteps(Math.min(graceMs, refusalsMs), over.signal, connections.dismissAll);
      setTimeout(connections.endUndone, undoneMs).unref();
      await within(handler.drain(), graceMs - readMs);
      await within(closed, Math.min(graceMs, lastAnswersMs));
      over.abort();
      connections.destroyAll();
      await closed;
    },
  };
}

function beginCall(
  connections: Connections,
  pipelines: Pipelines,
  how: OnRequest,
  request: Request,
  response: Response,
): void {
  const { ended, lasts } = connections.callBegan(request, response);
  const taken = pipelines.began(response);
  onceOver(response, () => {
    ended();
    taken?.ended();
  });
  how(request, response, () => {
    lasts();
    taken?.lasts();
  });
}

/** Runs something once an answer was taken, or never will be. */
function onceOver(response: Response, run: () => void): void {
  // The response to a HEAD over HTTP/2 tells nothing where its stream closes before it was ended.
  if ("stream" in response) response.stream.once("close", run);
  else response.once("close", run);
}

/** What becomes of each request, by way of `take`; a CONNECT on HTTP/1 has no response. */
function listenersOf(
  handler: RequestHandler,
  { headersMax }: ServerLimits,
  take: (how: OnRequest, request: Request, response: Response) => void,
  tunnelBegan: (request: Request, socket: Socket) => void,
): Pick<Listeners, "onRequest" | "onContinue" | "onExpectation" | "onConnect"> {
  const refuse = (what: Unserved): OnRequest =>
    take.bind(undefined, (request, response) => handler.refuseUnserved(request, response, what));
  const onHosted: OnRequest = take.bind(undefined, handler.handle);
  const refuseAndClose = (what: Unserved): OnRequest => {
    const refused = refuse(what);
    return (request, response) => {
      response.setHeader("connection", "close");
      refused(request, response);
    };
  };
  const onOddlyHosted = refuseAndClose("not one host");
  const onOddlyFramed = refuseAndClose("framing");
  const onTooManyHeaders = refuseAndClose("too many headers");
  const onTunnel = refuse("tunnel");
  const onOddExpectation = refuse("expectation");
  const onRequest: OnRequest = (request, response) => {
    // A short header takes a dozen times its own bytes. On HTTP/2 Node sees to it.
    if (!("stream" in request) && request.rawHeaders.length > 2 * headersMax)
      return onTooManyHeaders(request, response);
    if (!namesOneHost(request)) return onOddlyHosted(request, response);
    if (!isFramedAsServed(request)) return onOddlyFramed(request, response);
    return onHosted(request, response);
  };
  const onContinue = telling(onRequest);
  return {
    onRequest,
    onContinue,
    onExpectation: (request, response) => (isContinue(request) ? onContinue : onOddExpectation)(request, response),
    onConnect(request, it) {
      if ("stream" in request) onTunnel(request, it as Response);
      else tunnelBegan(request, it as Socket);
    },
  };
}

/** On HTTP/2 Node knows it in lower case alone (RFC 9110, 10.1.1). */
const isContinue = ({ headers }: Request): boolean => headers.expect?.toLowerCase() === "100-continue";

const hostName = "host";

/**
 * HTTP/1.1 takes one Host (RFC 9112, 3.2). Node would refuse none with nothing in the answer and past every count, and of
 * several it believes the first, where a proxy may believe the last.
 */
function namesOneHost({ httpVersion, rawHeaders }: Request): boolean {
  if (httpVersion !== "1.1") return true;
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === hostName.length && name.toLowerCase() === hostName) hosts += 1;
  }
  return hosts === 1;
}

/**
 * A body comes in chunks from HTTP/1.1 on, and in no other coding (RFC 9112, 6.1). Node reads chunks of HTTP/1.0 as well, where a
 * proxy may take them for the next request; and of a coding beside them it takes no notice.
 */
function isFramedAsServed({ httpVersion, headers: { "transfer-encoding": coding } }: Request): boolean {
  return coding === undefined || (httpVersion === "1.1" && coding.trim().toLowerCase() === "chunked");
}

interface Listeners extends Omit<Http2Listeners, "onConnect"> {
  /** HTTP/1 brings a socket instead of an answer; without a listener node destroys it. */
  readonly onConnect: (request: Request, it: Response | Socket) => void;
  readonly onUnreadable: RequestHandler["answerUnreadable"];
  /** Has an HTTP/1 connection read a request at a time, once node:http has it. */
  readonly takePiecewise: (socket: Socket) => void;
  readonly takeHttp2: (socket: Socket) => void;
}

function cleartext(connections: Connections, listeners: Listeners, limits: ServerLimits): Http1Server {
  const http1 = createHttp1Server(http1Options(limits), listeners.onRequest);
  allowHalfClosed(http1);
  http1.on("checkExpectation", listeners.onExpectation);
  http1.on("checkContinue", listeners.onContinue);
  http1.on("clientError", listeners.onUnreadable);
  http1.on("connect", listeners.onConnect);
  const { takeHttp2, takePiecewise } = listeners;
  tellApart(http1, takeHttp2, takePiecewise, (socket, untold) => connections.opened(socket, { untold }));
  return http1;
}

function secure(
  connections: Connections,
  { onRequest, onExpectation, onContinue, onConnect, takePiecewise, takeHttp2, onUnreadable }: Listeners,
  limits: ServerLimits,
  certificate: CertificateInUse,
): Http2SecureServer {
  const server = createSecureServer(
    { ...http1Options(limits), ...certificate.read(), allowHTTP1: true, handshakeTimeout: limits.requestMs },
    onRequest,
  );
  allowHalfClosed(server);
  server.on("checkExpectation", onExpectation);
  server.on("checkContinue", onContinue);
  server.on("connect", onConnect);
  server.on("clientError", onUnreadable);
  // Before node's own listener, which reports it as a clientError: without a handshake no answer can ever be written.
  server.prependListener("tlsClientError", (_, socket) => socket.destroy());
  const startTls = takeListener(server, "connection");
  // Node does not tell which connection a finished handshake was on: the one that is read from when it says so.
  let current: { socket: Socket; readonly wire: Wire } | undefined;
  server.on("connection", (socket: Socket) => {
    socket.setNoDelay(true);
    const wire = new Wire(socket, certificate.handshakeRecords, () => {
      wire.on("data", () => (current = its));
      startTls.call(server, wire);
    });
    const its = { socket, wire };
    wire.onHanded = () => connections.brought(its.socket);
    connections.opened(socket, { wire });
  });
  const takeHttp1 = takeListener(server, "secureConnection");
  server.on("secureConnection", (socket) => {
    // TLS over a stream does not know it.
    Object.defineProperty(socket, "remoteAddress", { value: current?.socket.remoteAddress });
    current?.wire.handshakeDone();
    connections.secured(current?.socket, socket);
    if (current !== undefined) current.socket = socket;
    socket.on("error", () => socket.destroy());
    if (socket.alpnProtocol === "h2") {
      takeHttp2(socket);
    } else {
      takeHttp1.call(server, socket);
      if (!socket.destroyed) takePiecewise(socket);
    }
    // As of the wire below it: nobody ends our side but who answers.
    socket.allowHalfOpen = true;
  });
  return server;
}

/** Takes node's own listener off, to be run when it is its turn. */
function takeListener(server: Http2SecureServer, event: "connection" | "secureConnection"): (socket: Duplex) => void {
  const [listener] = server.listeners(event) as ((socket: Duplex) => void)[];
  if (listener === undefined) throw new Error(`node no longer listens for its own ${event}`);
  server.removeAllListeners(event);
  return listener;
}

/** A client may end its side together with its request: the connection ends behind the last answer. */
function allowHalfClosed(server: Http1Server | Http2SecureServer): void {
  // Documented nowhere; without it node ends our side as well, and no answer that is not out yet is ever sent.
  Object.assign(server, { httpAllowHalfOpen: true });
}

async function listen(
  server: Http1Server | Http2SecureServer,
  options: ServerOptions,
  scheme: Address["scheme"],
): Promise<void> {
  const { host, onBound } = options;
  await open(server, host, options.port).catch((error: unknown) => {
    throw new Error(whyNotBound(error, options), { cause: error });
  });
  const { port } = server.address() as AddressInfo;
  try {
    await onBound?.({ scheme, host, port });
  } catch (error) {
    NetServer.prototype.close.call(server);
    throw error;
  }
}

function open(server: Http1Server | Http2SecureServer, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host, backlog: backlogMax }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** Waits for a promise, but not for longer than `ms`. */
async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, Math.max(0, ms));
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
