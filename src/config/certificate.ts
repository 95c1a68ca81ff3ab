/**
 * The server's certificate, from the files that the operator names. It is checked against its key: with a wrong pair, TLS
 * would start and fail every handshake.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileTrouble } from "../store/file-trouble.ts";

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Both PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  /** From when to when it is valid, in milliseconds since the Unix epoch. */
  readonly beginMs: number;
  readonly endMs: number;
}

/** Reads the pair. Throws a sentence without its full stop, which names the variable at fault. */
export function readCertificate({ certFile, keyFile }: CertificateFiles): Certificate {
  const cert = readNamed("OTP_TLS_CERT_FILE", certFile);
  const key = readNamed("OTP_TLS_KEY_FILE", keyFile);
  const shown = parsed("OTP_TLS_CERT_FILE", certFile, "a certificate", () => new X509Certificate(cert));
  const own = parsed("OTP_TLS_KEY_FILE", keyFile, "a private key without a passphrase", () => createPrivateKey(key));
  if (!shown.checkPrivateKey(own)) {
    throw new Error(
      `OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE do not belong together: the key in ${keyFile} is not that of the first certificate in ${certFile}`,
    );
  }
  return { cert, key, beginMs: Date.parse(shown.validFrom), endMs: Date.parse(shown.validTo) };
}

function readNamed(variable: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new Error(`${variable}: ${path} ${fileTrouble(error) ?? "cannot be read"}`, { cause: error });
  }
}

/** The fault is a sentence of ours: the library's may quote the file. */
function parsed<T>(variable: string, path: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new Error(`${variable}: ${path} does not hold ${what} in PEM form`);
  }
}
