/**
 * Keys and signatures as gateways write them down: in hex or in base64.
 */
import { createPublicKey, type KeyObject } from "node:crypto";

/** What stands before the 32 bytes of an Ed25519 key in its public form (SPKI). */
const spkiHead = Buffer.from("302a300506032b6570032100", "hex");

/** An Ed25519 key: its 32 bytes in base64 or hex, or the whole of a public key (SPKI) in base64. Pure. */
export function publicKeyOf(text: string): KeyObject | undefined {
  const bytes = bytesOf(text, 32);
  const spki = bytes.length === 32 ? Buffer.concat([spkiHead, bytes]) : bytes;
  try {
    const key = createPublicKey({ key: spki, format: "der", type: "spki" });
    return key.asymmetricKeyType === "ed25519" ? key : undefined;
  } catch {
    return undefined;
  }
}

/** The bytes of a text in hex, where it has as many digits as so many bytes take, else in base64; none of another. Pure. */
export function bytesOf(text: string, count: number): Buffer {
  if (text.length === 2 * count && /^[0-9a-f]+$/i.test(text)) return Buffer.from(text, "hex");
  return Buffer.from(/^[A-Za-z0-9+/_-]+={0,2}$/.test(text) ? text : "", "base64");
}
