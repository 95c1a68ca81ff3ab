/**
 * The part of the store port that operators write, by the CLI beside a running server or at its start. What one process
 * writes, another sees at its next call. The promises of store.ts hold here too.
 */
import type { ApiKey } from "../otp/api-key.ts";
import type { Instant } from "../system.ts";

/** The configured master keys are not those the database was written with. */
export class MasterKeyMismatch extends Error {
  override readonly name = "MasterKeyMismatch";
}

export interface Registry {
  /** Finds an API key by its id. Sees at once what another process wrote. */
  findApiKey(id: string): Promise<ApiKey | undefined>;
  /** Adds a key. */
  addApiKey(key: ApiKey): Promise<void>;
  /** All keys of all tenants, oldest first. */
  listApiKeys(): Promise<ApiKey[]>;
  /** Revokes a key; false if there is none with this id. Revoking twice keeps the first time. */
  revokeApiKey(id: string, now: Instant): Promise<boolean>;
  /** Notes when a key was last used. */
  touchApiKey(id: string, now: Instant): Promise<void>;

  /**
   * Compares the configured master keys, the current one first, with those the database was written with. Rejects with
   * MasterKeyMismatch when none of them is known, when a key that rows still need is missing, or when two keys share an
   * id; else notes the current one. A row needs the key it was written with until it is swept: a verification, also a
   * phone's wrong codes, which are found under that key alone; and a bucket until it is full.
   */
  admitMasterKeys(keys: readonly { readonly kid: number; readonly check: Uint8Array }[]): Promise<void>;
}
