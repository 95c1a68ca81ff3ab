/**
 * What a database has to do for the store: run acts in transactions, and read what is committed. Everything that the port
 * (store.ts) promises beyond that is done once, in acts.ts and sweep.ts. docs/databases.md says how to add one.
 */
import type { Message } from "../otp/message.ts";
import type { Guesses } from "../otp/spray.ts";
import type { PhoneView, Verification } from "../otp/verification.ts";
import type { Instant } from "../system.ts";
import type { EventStore } from "./events.ts";
import type { Registry } from "./registry.ts";
import type { Outbox, PhoneRef, PrefixName, PrefixView } from "./store.ts";
import type { Found, Horizon } from "./sweep.ts";
import type { Act } from "./unit-of-work.ts";

/** Names one message. */
export interface MessageName {
  readonly verificationId: string;
  readonly copy: number;
}

export interface Engine {
  readonly registry: Registry;
  readonly events: EventStore;

  /** The store's clock. It never runs backwards. */
  now(): Instant;

  /**
   * Runs an act within the next transaction, and resolves with its value once that is durable. Acts that share something
   * they declared are serial. An act that fails leaves nothing, and takes none of its neighbours with it. Rejects with
   * StoreUnavailable when the database cannot do it.
   */
  perform<T>(act: Act<T>): Promise<T>;

  // ---- reads of what is committed, outside of any act ----

  readVerification(id: string): Promise<Verification | undefined>;
  /** Up to `max` of a phone, the newest first. */
  readVerifications(phoneIndexes: readonly Uint8Array[], max: number): Promise<Verification[]>;
  readPhone(ref: PhoneRef): Promise<PhoneView>;
  readPrefix(name: PrefixName): Promise<PrefixView | undefined>;
  /** The messages of a verification, oldest first. */
  readMessages(verificationId: string): Promise<Message[]>;
  readGuesses(): Promise<ReadonlyMap<string, Guesses>>;
  readOutbox(): Promise<Outbox>;
  /** When the next message is due, or undefined when none is. */
  nextDue(): Promise<Instant | undefined>;
  /** Up to `max` messages that are due, in no other instance's hand just now; the one that has been due for longest first. */
  dueMessages(max: number): Promise<MessageName[]>;
  /** Up to `max` verifications that are past their time and not yet ended. */
  lapsedVerifications(max: number): Promise<string[]>;
  /** Up to `max` names of records of Idempotency-Keys that come after `from`, in their order. */
  readRecordNames(from: Uint8Array, max: number): Promise<Uint8Array[]>;
  /** Whether any tenant has an endpoint that is not disabled. */
  hasEndpoints(): Promise<boolean>;

  // ---- the rest ----

  /** Tells other instances that there are messages for anybody to take. They look by themselves a second later. */
  announceMessages(): Promise<void>;

  /**
   * In one transaction: reads up to `horizon.max` rows of each table that is gone through by key, deletes those of them that
   * `judge` names, if they still are as they were read, and up to as many of what is found by its time.
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
