/**
 * Certificates for tests, made by openssl: self-signed for 127.0.0.1, each with a name of its own.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../service/world.ts";

/** Makes a certificate and its key in a folder, of RSA with so many bits, or else of an elliptic curve. Gives the paths of the two files. */
export function certificateIn(
  folder: string,
  name = "127.0.0.1",
  days = 2,
  rsaBits?: number,
): { cert: string; key: string } {
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const kind = rsaBits === undefined ? ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] : [`rsa:${rsaBits}`];
  const args = ["req", "-x509", "-newkey", ...kind, "-nodes", "-days", `${days}`];
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", [...args, ...subject, "-keyout", key, "-out", cert], { stdio: "ignore" });
  return { cert, key };
}

/** The same, both PEM, in no folder of the caller's. */
export function makeCertificate(name: string, days?: number, rsaBits?: number): { cert: string; key: string } {
  const { cert, key } = certificateIn(temporaryFolder(), name, days, rsaBits);
  return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
}

/** Makes one in a folder; gives the variables by which otpd serves it. */
export function writeCertificate(
  folder: string,
  name: string,
): Record<"OTP_TLS_CERT_FILE" | "OTP_TLS_KEY_FILE", string> {
  const { cert, key } = certificateIn(folder, name);
  return { OTP_TLS_CERT_FILE: cert, OTP_TLS_KEY_FILE: key };
}
