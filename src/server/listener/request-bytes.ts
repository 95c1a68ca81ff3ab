/**
 * How many bytes a request is taken for.
 */
import type { Request } from "./exchange.ts";

/** What a request is taken for beside its headers, which are held as bytes and as texts. */
const http1RequestBytes = 4_096;
const http2RequestBytes = 8_192;
/** And for each header, however short: its two texts, and where they are found. */
const headerPairBytes = 128;
/** What a usual request has of headers, in bytes and in number. */
const usualHeaderBytes = 1_024;
const usualHeaders = 24;

/** Tells what a request is taken for until its answer was taken, in bytes. */
export function takenFor(request: Request): number {
  return takenForHeaders(request) + ("stream" in request ? http2RequestBytes : http1RequestBytes);
}

/** Tells what a request whose answer lasts is taken for meanwhile: what its headers take beyond a usual request's, of which the number alone is bounded. */
export function takenForLasting(request: Request): number {
  return Math.max(0, takenForHeaders(request) - 2 * usualHeaderBytes - usualHeaders * headerPairBytes);
}

/** Of its trailers too, as far as they are here. */
function takenForHeaders(request: Request): number {
  const { rawHeaders, rawTrailers } = request;
  const pairs = (rawHeaders.length + rawTrailers.length) / 2;
  return 2 * (headerBytes(request) + trailerBytes(request)) + pairs * headerPairBytes;
}

export const headerBytes = ({ rawHeaders }: Request): number => bytesOf(rawHeaders);
export const trailerBytes = ({ rawTrailers }: Request): number => bytesOf(rawTrailers);

function bytesOf(texts: readonly string[]): number {
  let bytes = 0;
  for (const text of texts) bytes += text.length;
  return bytes;
}
