/**
 * How calls of the `messagebird` package travel. The package takes no agent, host, deadline or signal, hides the HTTP
 * status of whatever parses as JSON, and leaks a listener per call on a socket that is kept alive. All of that is mended
 * from outside, in the one place a Node HTTP request cannot avoid: the agent that gives it its socket.
 *
 * The package uses Node's global agent, so this one takes its place. Requests to any other host pass through unchanged.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { ClientRequest } from "node:http";
import https, { Agent, globalAgent } from "node:https";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { boundAnswer } from "../../http-answer.ts";

/** What is seen of one call from outside the package. */
export interface Probe {
  request?: ClientRequest;
  /** True once a secured connection stood: from then on the request may have been read. */
  wasConnected: boolean;
  /** Why there was no answer. */
  failure?: unknown;
  status?: number | undefined;
  retryAfter?: string | undefined;
  /** The answer's Date header. */
  date?: string | undefined;
}

/** The only host the package calls for messages and the balance. */
const packageHost = "rest.messagebird.com";
/** The largest answer read; the API's own are under 2 KiB. */
const answerBytesMax = 65_536;
const socketsMax = 64;

const calls = new AsyncLocalStorage<Probe>();

/** Runs a call of the package, and tells what is seen of it. */
export function watched(call: () => void): Probe {
  const probe: Probe = { wasConnected: false };
  calls.run(probe, call);
  return probe;
}

type Connecting = Parameters<Agent["createConnection"]>[0];

class MessageBirdAgent extends Agent {
  /** Where the package's calls go instead; the certificate is checked against its name. */
  target = new URL(`https://${packageHost}`);

  /** Node hands every request to its agent here, before a byte is written. */
  addRequest(request: ClientRequest, options: { host?: string | null }): void {
    const probe = options.host === packageHost ? calls.getStore() : undefined;
    if (probe !== undefined) {
      request.setHeader("host", this.target.host);
      watch(request, probe);
    }
    addRequestOf(this, request, options);
  }

  /** Connections and TLS sessions are kept under this name: one that leads to an earlier target is never used again. */
  override getName(options?: Parameters<Agent["getName"]>[0]): string {
    const name = super.getName(options);
    return options?.host === packageHost ? `${name}:${this.target.host}` : name;
  }

  override createConnection(
    options: Connecting,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    const { hostname, port } = this.target;
    const host = hostname.replace(/^\[|\]$/g, "");
    const elsewhere = { host, port: Number(port || 443), servername: isIP(host) === 0 ? host : "" };
    return super.createConnection(options.host === packageHost ? { ...options, ...elsewhere } : options, callback);
  }
}

/** `addRequest` is Node's documented seam for agents, but its types leave it out. */
function addRequestOf(agent: Agent, request: ClientRequest, options: unknown): void {
  const prototype = Agent.prototype as unknown as { addRequest(request: ClientRequest, options: unknown): void };
  prototype.addRequest.call(agent, request, options);
}

function watch(request: ClientRequest, probe: Probe): void {
  probe.request = request;
  request.once("error", (error) => (probe.failure = error));
  request.once("socket", (socket) => {
    // A kept connection is secured already: a listener there would wait for ever, one more per call.
    // `reusedSocket` will not do: it stays false for a request that had to wait for the connection.
    if (socket.connecting) socket.once("secureConnect", () => (probe.wasConnected = true));
    else probe.wasConnected = true;
    // The package adds a listener per call and never takes it away; on a kept connection they would pile up.
    const before = new Set(socket.listeners("timeout"));
    request.once("close", () => {
      for (const listener of socket.listeners("timeout")) {
        if (!before.has(listener)) socket.off("timeout", listener as () => void);
      }
    });
  });
  request.once("response", (response) => {
    probe.status = response.statusCode;
    probe.retryAfter = response.headers["retry-after"];
    probe.date = response.headers.date;
    boundAnswer(response, answerBytesMax, () => request.destroy(new Error("the answer is too large")));
  });
}

let installed: MessageBirdAgent | undefined;

/** Puts the agent in place, once, and sends the package's calls to `target` from now on. */
export function routeMessageBird(target: URL): void {
  if (installed === undefined) {
    installed = new MessageBirdAgent({ ...globalAgent.options, keepAlive: true, maxSockets: socketsMax });
    https.globalAgent = installed;
  }
  installed.target = target;
}
