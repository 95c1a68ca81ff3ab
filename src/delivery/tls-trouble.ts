/**
 * Why a far end was not trusted, in plain words: for operators of networks that show certificates of their own.
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
]);

/** Whether an error's code is of a TLS handshake that failed. Pure. */
export function isTlsFailure(code: string): boolean {
  return /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code);
}

/** The rest of a sentence about the far end; undefined where the failure, or what caused it, is of another kind. */
function tlsTrouble(failure: unknown): string | undefined {
  for (let error = failure; error instanceof Error; error = error.cause) {
    const said = "code" in error ? words.get(String(error.code)) : undefined;
    if (said !== undefined) return said;
  }
  return undefined;
}

/** That a far end cannot be reached, and why where that is known. */
export function unreached(name: string, failure: unknown): string {
  const why = tlsTrouble(failure);
  return `${name} cannot be reached${why === undefined ? "" : `: ${why}`}.`;
}
