/**
 * A POST to a URL that a tenant has named. Its host name is resolved here, every address is checked, and the connection is
 * made to those very addresses: resolved again for the connection, the name could lead elsewhere. Redirects are not
 * followed.
 */
import { lookup, Resolver } from "node:dns/promises";
import { request as requestHttp, type IncomingMessage, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { bulkhead } from "cockatiel";
import { boundAnswer } from "../http-answer.ts";
import { isTlsFailure } from "./unreached.ts";

export interface PostOptions {
  /** Whether an address may be connected to. */
  readonly isAllowed: (address: string) => boolean;
  /** Finds the addresses of a name; `createResolve` unless given. */
  readonly resolve?: (host: string) => Promise<readonly Address[]>;
  /** A certificate to trust instead of the usual ones. */
  readonly ca?: string;
}

export interface Address {
  readonly address: string;
  readonly family: number;
}

/** The end of a POST: a status, or why there is none, as the rest of a sentence. */
export type Posted =
  | { readonly kind: "answered"; readonly status: number }
  | { readonly kind: "unanswered"; readonly why: string };

export type Post = (
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
) => Promise<Posted>;

/** The longest answer that is waited for. Its body is not used, nor its connection again. */
const answerBytesMax = 65_536;
const tooLate = "it did not answer in time";

/** An answer's body may take so long after its head; then the connection is cut. */
const drainMs = 1_000;

/** Never rejects. Its result holds nothing of the URL or the body. */
export function createPost({ isAllowed, resolve = createResolve(), ca }: PostOptions): Post {
  return async (url, headers, body, signal) => {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const family = isIP(host);
    let addresses: readonly Address[];
    try {
      addresses = family === 0 ? await unlessAborted(resolve(host), signal) : [{ address: host, family }];
    } catch {
      return { kind: "unanswered", why: signal.aborted ? tooLate : "its name is not known" };
    }
    if (addresses.length === 0) return { kind: "unanswered", why: "its name is not known" };
    if (!addresses.every(({ address }) => isAllowed(address))) {
      return { kind: "unanswered", why: "its address is not public" };
    }
    const checked: LookupFunction = (_, options, callback) => {
      const [first] = addresses;
      if (options.all === true) callback(null, [...addresses]);
      else callback(null, first?.address ?? "", first?.family);
    };
    const options: RequestOptions & { ca?: string } = {
      method: "POST",
      headers: { ...headers, "content-length": `${Buffer.byteLength(body)}` },
      lookup: checked,
      agent: false,
      signal,
      ...(ca === undefined ? {} : { ca }),
    };
    return send(url, options, body);
  };
}

function send(url: URL, options: RequestOptions, body: string): Promise<Posted> {
  const make = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((answer) => {
    const request = make(url, options, (response) => {
      drain(response);
      answer({ kind: "answered", status: response.statusCode ?? 0 });
    });
    request.once("error", (error) => answer({ kind: "unanswered", why: reasonOf(error) }));
    request.end(body);
  });
}

/** Reads the answer's body away, as far as it is small. */
function drain(response: IncomingMessage): void {
  const cut = setTimeout(() => response.destroy(), drainMs);
  response.on("close", () => clearTimeout(cut));
  response.on("error", () => {});
  boundAnswer(response, answerBytesMax, () => response.destroy());
}

/** The same promise, which rejects when `signal` aborts. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error(tooLate));
    if (signal.aborted) return giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}

/** A name server has so long to answer, and is asked so often. */
const dnsTimeoutMs = 2_000;
const dnsTries = 2;

type LookUp = (host: string, options: { all: true }) => Promise<readonly Address[]>;

/** The operating system's look-ups of this process for events: one at a time. */
const systemTurns = bulkhead(1, Number.POSITIVE_INFINITY);

/**
 * Finds the addresses of names by DNS, from `servers` (the machine's unless given). Only names that DNS does not know,
 * such as those in /etc/hosts, are left to the operating system. Each of its look-ups holds one of the two threads for all
 * names of this process, and an SMS provider's name would wait behind a tenant's: so there is one at a time, and one for all
 * who ask for a name meanwhile.
 */
export function createResolve(
  servers?: readonly string[],
  lookUp: LookUp = lookup,
): (host: string) => Promise<readonly Address[]> {
  const resolver = new Resolver({ timeout: dnsTimeoutMs, tries: dnsTries });
  if (servers !== undefined) resolver.setServers(servers);
  const underWay = new Map<string, Promise<readonly Address[]>>();
  const askSystem = (host: string) => {
    const asked =
      underWay.get(host) ?? systemTurns.execute(() => lookUp(host, { all: true })).finally(() => underWay.delete(host));
    underWay.set(host, asked);
    return asked;
  };
  return async (host) => {
    if (/(^|\.)localhost\.?$/.test(host)) return askSystem(host);
    const asked = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = asked.flatMap((answer, i) =>
      answer.status === "fulfilled" ? answer.value.map((address) => ({ address, family: i === 0 ? 4 : 6 })) : [],
    );
    if (found.length > 0) return found;
    const isHanging = asked.some((answer) => answer.status === "rejected" && codeOf(answer.reason) === "ETIMEOUT");
    if (isHanging) throw new Error("the name's servers do not answer");
    return askSystem(host);
  };
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function reasonOf(error: Error): string {
  const code = codeOf(error);
  if (code === "ABORT_ERR") return tooLate;
  return isTlsFailure(code) ? "its certificate is not trusted" : "there was no connection";
}
