/**
 * Why a far end cannot be reached, in plain words: there is no way to it, or it shows a certificate that is not trusted, as in
 * networks that have their own.
 */

const unknownAuthority =
  "its certificate is of an authority that is not known here: NODE_EXTRA_CA_CERTS may name a file with its certificate";

const words = new Map([
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", unknownAuthority],
  ["UNABLE_TO_GET_ISSUER_CERT", unknownAuthority],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", unknownAuthority],
  ["SELF_SIGNED_CERT_IN_CHAIN", unknownAuthority],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", unknownAuthority],
  ["CERT_HAS_EXPIRED", "its certificate has expired"],
  ["CERT_NOT_YET_VALID", "its certificate is not valid yet"],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "its certificate is for another name"],
  ["ECONNREFUSED", "nothing listens there"],
  ["ECONNRESET", "it broke off the connection"],
  ["UND_ERR_SOCKET", "it broke off the connection"],
  ["ENOTFOUND", "its name is not known"],
  ["EAI_AGAIN", "its name cannot be looked up now"],
  ["EHOSTUNREACH", "there is no way to it from here"],
  ["ENETUNREACH", "there is no way to it from here"],
  ["ETIMEDOUT", "it does not answer"],
  ["UND_ERR_CONNECT_TIMEOUT", "it does not answer"],
]);

/** Whether an error's code is of a TLS handshake that failed. Pure. */
export function isTlsFailure(code: string): boolean {
  return /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code);
}

/** The rest of a sentence about the far end; undefined where the failure, or what caused it, is of another kind. */
function troubleOf(failure: unknown): string | undefined {
  for (let error = failure; error instanceof Error; error = error.cause) {
    if (error.name === "TimeoutError") return "it does not answer in time";
    const said = "code" in error ? words.get(String(error.code)) : undefined;
    if (said !== undefined) return said;
  }
  return undefined;
}

/** That a far end cannot be reached, and why where that is known. */
export function unreached(name: string, failure: unknown): string {
  const why = troubleOf(failure);
  return `${name} cannot be reached${why === undefined ? "" : `: ${why}`}.`;
}
