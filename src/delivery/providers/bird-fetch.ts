/**
 * The fetch that `@messagebird/sdk` is given. The SDK follows redirects, reads answers of any size, and drops the reason why
 * there was no connection. This fetch stops at redirects, refuses answers that are too large, and records what happened.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { readAnswer } from "../../http-answer.ts";

/** What is recorded of one call. */
export interface CallRecord {
  /** The error of fetch, where there was no answer. */
  failure?: unknown;
  /** The answer's Date header. */
  date?: string | undefined;
}

/** The largest answer read; the API's own are under 4 KiB. */
const answerBytesMax = 65_536;

const calls = new AsyncLocalStorage<CallRecord>();

/** Runs a call of the SDK, and fills in its record. */
export function recorded<T>(record: CallRecord, call: () => Promise<T>): Promise<T> {
  return calls.run(record, call);
}

/** Makes that fetch of the real one. */
export function recordingFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const record = calls.getStore() ?? {};
    try {
      const response = await fetch(input, { ...init, redirect: "manual" });
      record.date = response.headers.get("date") ?? undefined;
      const { status, headers } = response;
      return new Response(response.body === null ? null : await bodyOf(response.body), { status, headers });
    } catch (error) {
      record.failure = error;
      throw error;
    }
  };
}

async function bodyOf(body: ReadableStream<Uint8Array>): Promise<Buffer<ArrayBuffer>> {
  const read = await readAnswer(body, answerBytesMax);
  if (read === undefined) throw new Error("the answer is too large");
  return read;
}
