/**
 * Where the public keys of receipts are: GET /.well-known/jwks.json, for anybody and from any page. They are public, so
 * there is nothing to authenticate, and caches may keep them for as long as a receipt is good for.
 */
import type { PublicJwk } from "../otp/signing-key.ts";
import type { Visit } from "./gateway.ts";

const path = "/.well-known/jwks.json";

/** Makes the visit, for keys that stay as they are while the service runs. */
export function createKeySetVisit(keySet: {
  readonly keys: readonly PublicJwk[];
}): (path: string) => Visit | undefined {
  const value = {
    type: "application/json",
    body: JSON.stringify(keySet),
    headers: { "cache-control": "public, max-age=300", "access-control-allow-origin": "*" },
  };
  const visit: Visit = { methods: ["GET", "HEAD"], answer: () => Promise.resolve({ ok: true, value }) };
  return (asked) => (asked === path ? visit : undefined);
}
