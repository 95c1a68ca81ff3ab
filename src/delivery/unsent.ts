/**
 * Whether a failed request can have been read at all. Failing over at once is right only when it cannot: otherwise the
 * text may be on its way already.
 */

/** Failures of fetch that happen before a byte of the request is written. */
const unwritten = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** True if the error, or one behind it, says that no connection was made or that its TLS handshake failed. */
export function neverConnected(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = "code" in cause ? String(cause.code) : "";
    // A port that web pages must not call, such as 6000: fetch has no code for it.
    if (cause.message === "bad port") return true;
    if (unwritten.has(code) || /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code)) return true;
  }
  return false;
}
