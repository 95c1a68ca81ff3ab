/**
 * Receipts: the proof of a verification, to be handed on. A client that had its code verified passes the receipt to a
 * backend of its own, which checks the signature instead of believing the client (docs/receipts.md).
 */
import type { KeyRing, MasterKey } from "../keys/key-ring.ts";
import type { E164 } from "../phone-number.ts";
import { isSandbox } from "../message/sandbox.ts";
import { signClaims, type PublicJwk } from "../keys/signing-key.ts";
import { bindOf, channelsUsed, type Verification } from "./verification.ts";

/** How long a receipt is good for, in seconds. */
export const receiptLifeSeconds = 300;

/** Who vouches, and to whom. */
export interface ReceiptParties {
  /** `iss`: the origin at which this service is known, or "otpd". */
  readonly issuer: string;
  /** `aud`: the tenant's audience. */
  readonly audience: string;
}

/**
 * The receipt of a verified verification, signed with `key`'s half for the sandbox or the other. The same verification
 * and key give the same receipt, whenever it is asked for. Its `jti` is its `sub`, since a verification is verified once.
 * Pure.
 */
export function receiptOf(key: MasterKey, verification: Verification, phone: E164, parties: ReceiptParties): string {
  const { id, tenant, purpose, bind, state, endMs } = verification;
  if (state !== "VERIFIED" || endMs === null) throw new Error("only what is verified has a receipt");
  const isTest = isSandbox(tenant);
  const iat = Math.floor(endMs / 1000);
  return signClaims(isTest ? key.receiptTest : key.receipt, {
    iss: parties.issuer,
    aud: parties.audience,
    sub: id,
    phone,
    channels: channelsUsed(verification),
    ...(purpose === "" ? {} : { purpose }),
    ...(bind === "" ? {} : { bind: bindOf(bind) }),
    iat,
    exp: iat + receiptLifeSeconds,
    jti: id,
    ...(isTest ? { test: true } : {}),
  });
}

/**
 * The public keys that receipts are checked with: of every configured master key that has not leaked, those of the sandbox
 * too. Pure.
 */
export function receiptKeys(keys: KeyRing): { readonly keys: readonly PublicJwk[] } {
  const trusted = keys.all.filter(({ isLeaked }) => !isLeaked);
  return { keys: trusted.flatMap(({ receipt, receiptTest }) => [receipt.publicJwk, receiptTest.publicJwk]) };
}
