/**
 * Signatures as Standard Webhooks prescribes them: HMAC-SHA-256 over `id.timestamp.body`, one for each secret.
 */
import { createHmac } from "node:crypto";
import type { Instant } from "../system.ts";

/** The three headers of a signed body. Each secret has 24 to 64 bytes; at least one. Pure. */
export function signatureHeaders(
  id: string,
  body: string,
  secrets: readonly Uint8Array[],
  now: Instant,
): Record<string, string> {
  const timestamp = `${Math.floor(now / 1_000)}`;
  const signatures = secrets.map((secret) => {
    const mac = createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64");
    return `v1,${mac}`;
  });
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}
