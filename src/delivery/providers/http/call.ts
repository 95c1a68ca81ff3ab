/**
 * One HTTP call of a provider: bounded in size and time, without redirects, and over cleartext to private addresses
 * alone. fetch knows no way to check the address that it connects to, and takes three times the memory.
 */
import { Agent as HttpAgent, request as requestHttp, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, globalAgent, request as requestHttps } from "node:https";
import { readAnswer } from "../../../http-answer.ts";
import { callsAtOnceMax } from "../../provider.ts";
import { lookUpPrivate } from "./address.ts";
import type { Answer } from "./answer.ts";
import type { HttpRequest } from "./request.ts";

/** An answer, or why there is none. */
export type Called =
  | { readonly kind: "answered"; readonly answer: Answer }
  | { readonly kind: "unanswered"; readonly wasConnected: boolean };

/** `needsBody` tells of a status whether the body is worth more than a moment. Never rejects. */
export type HttpCall = (
  request: HttpRequest,
  signal: AbortSignal,
  needsBody: (status: number) => boolean,
) => Promise<Called>;

const answerBytesMax = 16_384;
/** A body that decides nothing is waited for only so long: it may have an id. */
const idWaitMs = 1_000;
const switchingProtocols = 101;
/** Shorter than servers' own patience, which ends a connection just when it is used again. */
const idleMs = 4_000;

/** Makes what calls the provider of a URL. */
export function createCall(providerUrl: string): HttpCall {
  const isSecure = providerUrl.startsWith("https:");
  const kept = { keepAlive: true, maxSockets: callsAtOnceMax, timeout: idleMs };
  const agent = isSecure ? new HttpsAgent({ ...globalAgent.options, ...kept }) : new HttpAgent(kept);
  const make = isSecure ? requestHttps : requestHttp;
  const around = isSecure ? { agent } : { agent, lookup: lookUpPrivate };

  return ({ method, url, headers, body = "" }, signal, needsBody) =>
    new Promise((resolve) => {
      let [wasConnected, hasAnswered] = [false, false];
      const length = method === "GET" ? {} : { "content-length": `${Buffer.byteLength(body)}` };
      const request = make(url, { ...around, method, headers: { ...headers, ...length }, signal });
      request.once("socket", (socket) => {
        if (socket.connecting) socket.once(isSecure ? "secureConnect" : "connect", () => (wasConnected = true));
        else wasConnected = true;
      });
      const onAnswer = (response: IncomingMessage) => {
        const { statusCode: status = 0, headers: said } = response;
        hasAnswered = true;
        const isNeeded = needsBody(status);
        const hasBody = status !== switchingProtocols;
        void (hasBody ? bodyOf(response, isNeeded) : Promise.resolve("")).then((text) =>
          resolve({
            kind: "answered",
            answer: { status, retryAfter: said["retry-after"], type: said["content-type"], body: text },
          }),
        );
        if (!hasBody) request.destroy();
      };
      request.once("response", onAnswer);
      // Node tells by this alone of an answer that names the protocol which it goes over to.
      request.once("upgrade", onAnswer);
      request.on("error", () => {
        // An answer that breaks off is its reader's to judge: its status may be enough.
        if (!hasAnswered) resolve({ kind: "unanswered", wasConnected });
      });
      request.end(body === "" ? undefined : body);
    });
}

/** The body; undefined where it breaks off, is too large, or has nothing to decide and is slow. */
async function bodyOf(response: IncomingMessage, isNeeded: boolean): Promise<string | undefined> {
  const timer = isNeeded ? undefined : setTimeout(() => response.destroy(), idWaitMs);
  try {
    return (await readAnswer(response, answerBytesMax))?.toString("utf8");
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
