/**
 * Users who prove their numbers one after the other, over REST, while servers come and go: each call is made again under its
 * Idempotency-Key until somebody answers it for good, and every proof is tried a second time.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { newPhone } from "../data/phones.ts";

export interface Gateway {
  readonly url: string;
  /** The code that a phone was sent last, once it was. */
  codeFor(phone: string): Promise<string>;
  stop(): void;
}

/** The far end of the webhook provider: it takes every message, and remembers the code in it. */
export async function startGateway(): Promise<Gateway> {
  const codes = new Map<string, PromiseWithResolvers<string>>();
  const of = (phone: string) => {
    const known = codes.get(phone) ?? Promise.withResolvers<string>();
    codes.set(phone, known);
    return known;
  };
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { to, text } = body as { to: string; text: string };
      of(to).resolve(/\d{6,10}/.exec(text)?.[0] ?? "");
      response.writeHead(204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    codeFor: (phone) => of(phone).promise,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type Body = Readonly<Record<string, unknown>>;

export interface Answer {
  readonly status: number;
  readonly body: Body;
  readonly isReplayed: boolean;
}

export interface Caller {
  readonly key: string;
  /** Where the next call goes. */
  readonly url: () => string;
}

/** Calls once. Rejects where nobody answers. */
export async function call(
  { key, url }: Caller,
  path: string,
  message: Body,
  idempotencyKey?: string,
): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
  };
  const asked = path === "" ? {} : { method: "POST", body: JSON.stringify(message) };
  const answer = await fetch(`${url()}/v1/otp/${path || String(message["request_id"])}`, { headers, ...asked });
  const body = (await answer.json()) as Body;
  return { status: answer.status, body, isReplayed: answer.headers.get("idempotency-replayed") === "true" };
}

/** Calls under one Idempotency-Key until there is an answer for good. */
export async function callForGood(caller: Caller, path: string, message: Body): Promise<Answer> {
  const idempotencyKey = crypto.randomUUID();
  for (;;) {
    const answer = await call(caller, path, message, idempotencyKey).catch(() => undefined);
    if (answer !== undefined && answer.status !== 503 && answer.status !== 409 && answer.status !== 504) return answer;
    await sleep(20);
  }
}

export interface Traffic {
  /** Resolves when so many more were proven. */
  proven(more: number): Promise<void>;
  /** Ends it, and tells how often each thing happened, such as "send 200" and "again OTP_ALREADY_VERIFIED". */
  stop(): Promise<Readonly<Record<string, number>>>;
}

/** Starts users who prove one new number after the other, so many at once. */
export function startTraffic(caller: Caller, gateway: Gateway, users: number): Traffic {
  const counts: Record<string, number> = {};
  const note = (what: string, { status, body }: Answer) => {
    const name = `${what} ${status === 200 ? 200 : String(body["reason"])}`;
    counts[name] = (counts[name] ?? 0) + 1;
    return status === 200;
  };
  let isOver = false;
  let proven = 0;
  let waiting: { at: number; reached: () => void }[] = [];
  const user = async () => {
    while (!isOver) {
      const phone = newPhone();
      const sent = await callForGood(caller, "send", { phone });
      if (!note("send", sent)) continue;
      const { request_id } = sent.body;
      const message = { request_id, code: await gateway.codeFor(phone) };
      note("verify", await callForGood(caller, "verify", message));
      note("again", await callForGood(caller, "verify", message));
      proven += 1;
      for (const { at, reached } of waiting) if (proven >= at) reached();
      waiting = waiting.filter(({ at }) => proven < at);
    }
  };
  const all = Array.from({ length: users }, user);
  return {
    proven: (more) => new Promise((reached) => waiting.push({ at: proven + more, reached })),
    async stop() {
      isOver = true;
      await Promise.all(all);
      return counts;
    },
  };
}
