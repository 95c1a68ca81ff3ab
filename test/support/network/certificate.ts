/**
 * Certificates for tests, made by openssl: self-signed for 127.0.0.1, each with a name of its own.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../service/world.ts";

/** Makes a certificate and its key, both PEM; of RSA with so many bits, or else of an elliptic curve. */
export function makeCertificate(name: string, days = 2, rsaBits?: number): { cert: string; key: string } {
  const folder = temporaryFolder();
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const kind = rsaBits === undefined ? ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] : [`rsa:${rsaBits}`];
  const args = ["req", "-x509", "-newkey", ...kind, "-nodes", "-days", `${days}`];
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", [...args, ...subject, "-keyout", keyFile, "-out", certFile], { stdio: "ignore" });
  return { cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}

/** Makes one in a folder; gives the paths of its two files. */
export function certificateIn(folder: string, name = "127.0.0.1"): { cert: string; key: string } {
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const { cert, key } = makeCertificate(name);
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
  return { cert: certFile, key: keyFile };
}

/** Makes one in a folder; gives the variables by which otpd serves it. */
export function writeCertificate(
  folder: string,
  name: string,
): Record<"OTP_TLS_CERT_FILE" | "OTP_TLS_KEY_FILE", string> {
  const { cert, key } = certificateIn(folder, name);
  return { OTP_TLS_CERT_FILE: cert, OTP_TLS_KEY_FILE: key };
}
