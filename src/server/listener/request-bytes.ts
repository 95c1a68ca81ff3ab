/**
 * How many bytes a request is taken for.
 */
import type { Request } from "./exchange.ts";

/** What a request is taken for beside its headers, which are held as bytes and as texts. */
const http1RequestBytes = 4_096;
const http2RequestBytes = 8_192;

/** Tells what a request is taken for until its answer was taken, in bytes. */
export function takenFor(request: Request): number {
  return 2 * headerBytes(request) + ("stream" in request ? http2RequestBytes : http1RequestBytes);
}

export const headerBytes = ({ rawHeaders }: Request): number => bytesOf(rawHeaders);
export const trailerBytes = ({ rawTrailers }: Request): number => bytesOf(rawTrailers);

function bytesOf(texts: readonly string[]): number {
  let bytes = 0;
  for (const text of texts) bytes += text.length;
  return bytes;
}
