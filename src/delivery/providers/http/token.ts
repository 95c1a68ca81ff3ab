/**
 * The JWT that authorizes a request, signed anew for each: RS256 over the claims of the file and the token's own time
 * and id. A gateway that sees one can use it for five minutes, and only for what the claims say.
 */
import { createHash, createPrivateKey, sign, type KeyObject } from "node:crypto";
import type { Instant } from "../../../system.ts";

const lifeSeconds = 300;
const modulusBitsMin = 2_048;

/** An RSA key of 2048 bits or more, in PEM; its lines may be parted by `\n` as two characters. Undefined for anything else. Pure. */
export function privateKeyOf(text: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(text.replaceAll("\\n", "\n"));
    const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
    return key.asymmetricKeyType === "rsa" && bits >= modulusBitsMin ? key : undefined;
  } catch {
    return undefined;
  }
}

/** Makes what makes the tokens of a key; `subject` tells one request from another. */
export function createTokens(secret: string, claims: Readonly<Record<string, string>>, now: () => Instant) {
  const key = privateKeyOf(secret);
  if (key === undefined) throw new Error("configuration has checked the private key");
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const head = part({ alg: "RS256", typ: "JWT" });
  return (subject: string): string => {
    const nowMs = now();
    const iat = Math.floor(nowMs / 1_000);
    const jti = createHash("sha256").update(`${subject} ${nowMs}`).digest("base64url");
    const text = `${head}.${part({ ...claims, iat, exp: iat + lifeSeconds, jti })}`;
    return `${text}.${sign("sha256", Buffer.from(text), key).toString("base64url")}`;
  };
}
