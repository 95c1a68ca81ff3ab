/**
 * What a database has to do for the store: run acts in transactions, and read what is committed. Everything that the port
 * (store.ts) promises beyond that is done once, in acts.ts and sweep.ts. docs/databases.md says how to add one.
 */
import type { Destination } from "../otp/verification/destination.ts";
import type { PrefixRecord } from "../otp/limits/pumping-guard.ts";
import type { PhoneView } from "../otp/decisions/writes.ts";
import type { Instant } from "../system.ts";
import type { BucketRow, PhoneRow } from "./rows/phone.ts";
import type { PrefixRow } from "./rows/prefix.ts";
import type { RecordRow } from "./rows/record.ts";
import type { Statement, Steps, Value } from "./statement.ts";
import type { PhoneRef, PrefixName } from "./store.ts";
import type { Act } from "./unit-of-work.ts";

/** A long read is ended after this, in milliseconds. */
export const longReadMsMax = 2_000;
/** Long reads that wait for their turn. */
export const longReadQueueMax = 64;
/** A long read with more rows fails: they are held in memory. */
export const longReadRowsMax = 50_000;

export interface Engine {
  /** The store's clock. It never runs backwards. */
  readonly now: () => Instant;

  /**
   * Runs an act within the next transaction, and resolves with its value once that is durable. Acts that share something
   * they declared are serial. An act that fails leaves nothing, and takes none of its neighbours with it. Rejects with
   * StoreUnavailable when the database cannot do it.
   */
  perform<T>(act: Act<T>): Promise<T>;

  /** Runs an act in steps (statement.ts), as a transaction. It may be run again from its start. Rejects as `perform` does. */
  transact<T>(steps: () => Steps<T>): Promise<T>;

  /**
   * Runs one of acts of which hundreds come at once and whose callers can wait. They have to leave to calls what those need.
   */
  inTurn<T>(act: () => Promise<T>): Promise<T>;

  /** Runs a write of one statement by itself, and gives its rows. Rejects as `perform` does. */
  write<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;

  /** Runs a statement that reads what is committed. */
  query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;

  /**
   * Runs a statement that reads many rows of what is committed, for an operator: beside the calls, none of which waits for
   * it, for `longReadMsMax` at most. Rejects with LongReadEnded where that is not enough, or `longReadQueueMax` wait already;
   * otherwise as `perform` does. On SQLite, rows of `prefixes` may be older than their journal (sqlite/prefix-journal.ts).
   */
  longRead<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;

  /**
   * As `query`, for what calls ask for all the time. A value is `$1` of the statement. Gives what `make` makes of the rows,
   * which may be remembered for as long as it is certain that nobody has written since. That nothing was found is not
   * remembered: anybody may ask for what is not there.
   */
  recall<T>(
    statement: Statement,
    value: string | undefined,
    make: (rows: readonly never[]) => T | undefined,
  ): Promise<T | undefined>;

  /**
   * Finds events that are due by `$1`, up to `$2` of any one endpoint and `$4` in all, but none of the endpoints that `$3`
   * lists in JSON: the one that has been due for longest first. Passes over what another instance looks at just now. A long
   * backlog costs no more than a short one.
   */
  readonly dueEvents: Statement;
  /**
   * Finds up to `$2` messages that are due by `$1`, in no other instance's hand just now: the one that has been due for
   * longest first.
   */
  readonly dueMessages: Statement;
  /** The same for verifications whose next message is owed by fallback. */
  readonly dueFallbacks: Statement;
  /** Finds the messages of the verification `$1`, in the order of their copies. */
  readonly messagesOf: Statement;
  /** What joins their messages `m` to verifications `v`, few of many: a table and its condition. */
  readonly messagesJoin: string;
  /** The function that makes a JSON array of its arguments. */
  readonly jsonArray: string;
  /** The one that makes one of its argument in each row of a group. */
  readonly jsonArrayOf: string;
  /** In SQL: adds up a column of whole numbers, exactly below 2⁵³. */
  readonly sumOf: (column: string) => string;

  /**
   * Find by time. Of keys before (`$1`, `$2`) and from `$3` on, `$4` are looked at; then see acts/finding.ts, which makes
   * them.
   */
  readonly finding: { readonly found: Statement; readonly last: Statement };

  /** Reads a prefix outside of any act; undefined where nothing is kept of it. */
  readPrefix(name: PrefixName): Promise<PrefixRecord | undefined>;
  /** Reads a phone outside of any act. */
  readPhone(ref: PhoneRef): Promise<PhoneView>;
  /**
   * Whether any key lists an origin at a time. Anybody may ask for any number of them, so the calls' own reads and writes
   * must not have to wait for all that are asked for.
   */
  listsOrigin(origin: string, now: Instant): Promise<boolean>;
  /** Finds the longest entry of a tenant's lists that a number begins with. */
  findDestination(tenant: string, e164: string): Promise<Destination | undefined>;

  /** Tells other instances that there are messages for anybody to take. They look by themselves a second later. */
  announceMessages(): Promise<void>;

  /**
   * In one transaction: reads up to `horizon.max` rows of each table that is read through by key, and deletes those
   * that `judge` names, if they still are as they were read. Then it deletes up to as many rows of what is found by its
   * time.
   */
  deleteForgettable(horizon: Horizon, judge: (found: Found) => Found): Promise<Deleted>;

  /** Resolves when the database takes a write. */
  ping(): Promise<void>;

  /** Waits for what was begun, then lets go of the database. Safe to repeat. */
  close(): Promise<void>;
}

/** What a sweep's transaction has read and deleted. */
export interface Deleted {
  readonly found: Found;
  /** How many rows were deleted. */
  readonly count: number;
  /** True when there may be more of what is found by its time. */
  readonly more: boolean;
}

/** Rows of the tables without an index on time, in the order of their keys. */
export interface Found {
  readonly buckets: readonly BucketRow[];
  readonly phones: readonly PhoneRow[];
  readonly records: readonly Pick<RecordRow, "slot" | "expire_ms">[];
  readonly prefixes: readonly PrefixRow[];
}

/** Where a round through those tables goes on: after these keys; undefined where it is through. */
export interface Round extends Record<"buckets" | "phones" | "records", Uint8Array | undefined> {
  readonly prefixes: readonly [tenant: string, prefix: string] | undefined;
}

export interface Horizon {
  readonly now: Instant;
  /** Rows of each kind. */
  readonly max: number;
  readonly from: Round;
  /** Verifications that ended by then are deleted with their messages. */
  readonly endedMs: Instant;
  /** Guesses of minutes before this one are deleted. */
  readonly minute: number;
  /** Decisions about prefixes up to then are deleted. */
  readonly decidedMs: Instant;
  /** Entries of the audit before this are deleted. */
  readonly auditMs: Instant;
  /** Days before this one are deleted. */
  readonly day: number;
}
