/**
 * The part of the store port that finds verifications for operators: read beside the calls (`Engine.longRead`), so none waits
 * for it. A search goes through rows by key, the newest first; it looks at a bounded number of rows and tells where to go on.
 * Rejects with LongReadEnded where even that takes too long.
 */
import type { State } from "../otp/state.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Instant } from "../system.ts";

/** The key of a row: a search goes on behind it. */
export interface RowKey {
  readonly createMs: Instant;
  readonly id: string;
}

/** Which verifications are meant. */
export interface Sought {
  /** Of these tenants, two at most; undefined for all. */
  readonly tenants?: readonly string[] | undefined;
  /** As they stand now; undefined for all. */
  readonly state?: State | undefined;
  /** Opened at or after this. */
  readonly fromMs: Instant;
  /** Opened before this. */
  readonly toMs: Instant;
  /** Those older than this row. */
  readonly after?: RowKey | undefined;
}

/** The newest first. */
export interface FoundPage {
  readonly verifications: readonly Verification[];
  /** Where to go on; undefined when there is nothing more. There may be fewer than were asked for, and more to come. */
  readonly next: RowKey | undefined;
}

export interface Finding {
  /** Finds up to `max`, of the rows of the time: `rowsMax` of them are looked at. */
  findByTime(sought: Sought, bounds: { readonly max: number; readonly rowsMax: number }): Promise<FoundPage>;
  /** Finds up to `max` of a phone, whose `indexes` are those at each tenant under each master key. Looks at no tenant's name. */
  findByPhone(indexes: readonly Uint8Array[], sought: Sought, max: number): Promise<FoundPage>;
  /** Finds those whose id begins so: with 12 characters of base64url, or all 22. At most 10. */
  findById(start: string): Promise<readonly Verification[]>;
}
