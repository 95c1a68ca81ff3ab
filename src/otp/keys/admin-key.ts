/**
 * Keys of operators: `otp_admin_<id>_<secret><crc>`, with the id, the secret, the digest and the checksum of every other key
 * (api-key.ts). They open the operators' service and nothing else, and live in a table of their own, so that no look-up of
 * the callers' service can find one.
 */
import type { Instant } from "../../system.ts";

export const adminScopes = ["admin.read", "admin.write", "admin.phones"] as const;

/** What an operator may do: read, write, and see whole numbers besides. None includes another. */
export type AdminScope = (typeof adminScopes)[number];

/** What an admin key may do unless told otherwise. */
export const usualAdminScopes: readonly AdminScope[] = ["admin.read", "admin.write"];

/** What is stored of an admin key. */
export interface AdminKey {
  readonly id: string;
  /** The tenant that it is bound to; null for none. */
  readonly tenant: string | null;
  readonly name: string;
  readonly scopes: readonly AdminScope[];
  readonly digest: Uint8Array;
  readonly createMs: Instant;
  readonly expireMs: Instant | null;
  readonly revokeMs: Instant | null;
  /** Written at most once a minute. */
  readonly lastUseMs: Instant | null;
  /** When it was last tried after it was revoked or had ended; written at most once a minute. */
  readonly lastRefuseMs: Instant | null;
}
