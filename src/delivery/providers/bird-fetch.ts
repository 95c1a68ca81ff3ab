/**
 * The requests of `@messagebird/sdk`, seen from outside: the SDK follows redirects, reads answers of any size, and throws
 * away why no connection came about. So the fetch that it is given stops at a redirect, cuts what is too large, and notes
 * what happened for whoever made the call.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { readAnswer } from "../../http-answer.ts";

/** What is seen of one call. */
export interface Sighting {
  /** Why there was no answer, as fetch told it. */
  failure?: unknown;
  /** The answer's Date header. */
  date?: string | undefined;
}

/** The largest answer read; the API's own are under 4 KiB. */
const answerBytesMax = 65_536;

const calls = new AsyncLocalStorage<Sighting>();

/** Runs a call of the SDK, and fills in what is seen of it. */
export function sighted<T>(sighting: Sighting, call: () => Promise<T>): Promise<T> {
  return calls.run(sighting, call);
}

/** The fetch to give to the SDK, made of the real one. */
export function watchedFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const sighting = calls.getStore() ?? {};
    try {
      const response = await fetch(input, { ...init, redirect: "manual" });
      sighting.date = response.headers.get("date") ?? undefined;
      const { status, headers } = response;
      return new Response(response.body === null ? null : await bodyOf(response.body), { status, headers });
    } catch (error) {
      sighting.failure = error;
      throw error;
    }
  };
}

async function bodyOf(body: ReadableStream<Uint8Array>): Promise<Buffer<ArrayBuffer>> {
  const read = await readAnswer(body, answerBytesMax);
  if (read === undefined) throw new Error("the answer is too large");
  return read;
}
