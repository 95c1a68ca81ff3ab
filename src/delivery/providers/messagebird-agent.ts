/**
 * The HTTP agent of the `messagebird` package. The package takes no agent, host, deadline or signal, hides the HTTP status of
 * every answer in JSON, and leaks a listener per call on a socket that is kept alive. The agent mends all of that: each Node
 * HTTP request gets its socket from one.
 *
 * The package uses Node's global agent, so this one takes its place. Requests to any other host pass through unchanged.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { ClientRequest } from "node:http";
import https, { Agent, globalAgent } from "node:https";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { boundAnswer } from "../../http-answer.ts";
import { callsAtOnceMax, type OnStatus } from "../provider.ts";

export interface CallRecord {
  request?: ClientRequest;
  /** True once a secured connection stood: from then on the request may have been read. */
  wasConnected: boolean;
  /** Why there was no answer. */
  failure?: unknown;
  status?: number | undefined;
  retryAfter?: string | undefined;
  readonly onStatus?: OnStatus | undefined;
  /** The answer's Date header. */
  date?: string | undefined;
}

/** The only host the package calls for messages and the balance. */
const packageHost = "rest.messagebird.com";
/** The largest answer read; the API's own are under 2 KiB. */
const answerBytesMax = 65_536;

const calls = new AsyncLocalStorage<CallRecord>();

/** Runs a call of the package, and records it. */
export function recorded(call: () => void, onStatus?: OnStatus): CallRecord {
  const record: CallRecord = { wasConnected: false, onStatus };
  calls.run(record, call);
  return record;
}

type Connecting = Parameters<Agent["createConnection"]>[0];

class MessageBirdAgent extends Agent {
  /** Where the package's calls go; the certificate is checked against its name. */
  target = new URL(`https://${packageHost}`);

  /** Node hands every request to its agent here, before a byte is written. */
  addRequest(request: ClientRequest, options: { host?: string | null }): void {
    const record = options.host === packageHost ? calls.getStore() : undefined;
    if (record !== undefined) {
      request.setHeader("host", this.target.host);
      recordCall(request, record);
    }
    addRequestOf(this, request, options);
  }

  /** The name under which connections and TLS sessions are kept: those to an earlier target are not used again. */
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

function recordCall(request: ClientRequest, record: CallRecord): void {
  record.request = request;
  request.once("error", (error) => (record.failure = error));
  request.once("socket", (socket) => {
    // A kept connection is secured already, and a listener there would never be called. `reusedSocket` does not tell: it
    // stays false for a request that had to wait for its connection.
    if (socket.connecting) socket.once("secureConnect", () => (record.wasConnected = true));
    else record.wasConnected = true;
    // The package adds a listener per call and never removes it: on a kept connection they would pile up.
    const before = new Set(socket.listeners("timeout"));
    request.once("close", () => {
      for (const listener of socket.listeners("timeout")) {
        if (!before.has(listener)) socket.off("timeout", listener as () => void);
      }
    });
  });
  request.once("response", (response) => {
    record.status = response.statusCode;
    if (response.statusCode !== undefined) record.onStatus?.(response.statusCode);
    record.retryAfter = response.headers["retry-after"];
    record.date = response.headers.date;
    boundAnswer(response, answerBytesMax, () => request.destroy(new Error("the answer is too large")));
  });
}

let installed: MessageBirdAgent | undefined;

/** Installs the agent, once, and sends the package's calls to `target` from now on. */
export function routeMessageBird(target: URL): void {
  if (installed === undefined) {
    installed = new MessageBirdAgent({ ...globalAgent.options, keepAlive: true, maxSockets: callsAtOnceMax });
    https.globalAgent = installed;
  }
  installed.target = target;
}
