/**
 * The store port: the acts that keep verifications, and what each promises. One contract suite (test/store/contract.ts)
 * holds every promise on every database.
 *
 * The store does the I/O, the rules do the thinking. An act loads and locks what its decision needs, calls the pure and
 * synchronous `decide(view)` with the store's own clock in the view, applies the writes, commits, and returns the
 * decision's result. So:
 *
 * - Nothing is answered before it is durable. When a promise resolves, the writes survive kill −9 and power loss.
 * - All or nothing: an act's writes are committed together, or none is.
 * - Acts on one verification, or on one phone, are serial: no decision sees what another is about to change.
 * - A refusal is a result like any other, and what it counts is committed with it.
 * - `decide` may be run again on a fresh view when the database asks for it, so it must be pure.
 * - When the database cannot do the act, it rejects with StoreUnavailable and nothing of the act was written. Should the
 *   database be unable to say so (a lost connection during commit), the act may have been written, but its result is
 *   never handed out, and the error says so (`mayBeDone`).
 * - Rows are locked in one order: slot, verification, phone, prefix, day.
 * - When a verification comes to its end, by whatever act, its outcome is counted at its prefix (`recordOutcome`, in
 *   otp/limits/pumping-guard.ts) in the same transaction, and so exactly once.
 * - What a tenant's endpoints are to be told of (otp/decisions/event.ts) is written in the same transaction, and so exactly once.
 *
 * Everything belongs to a tenant; an id of another tenant is an id that does not exist.
 */
import type { AuditNote, Noted } from "../otp/operators/audit.ts";
import type { FallbackView } from "../otp/decisions/falling-back.ts";
import type { Slot, SlotOf, StoredAnswer } from "../otp/verification/idempotency.ts";
import type { Message } from "../otp/message/message.ts";
import type { Bill, Cap, Owed, SpendWarnings } from "../otp/decisions/spending.ts";
import type { SettleView } from "../otp/decisions/settlement.ts";
import type { SendView } from "../otp/decisions/standing.ts";
import type { Guesses } from "../otp/verification/spraying.ts";
import type { ChargeOf } from "../otp/operators/statistics.ts";
import type { UpdateView } from "../otp/decisions/standing.ts";
import type { GuardMode, PrefixChange, PrefixDecision, PrefixRecord } from "../otp/limits/pumping-guard.ts";
import type { Limit } from "../otp/limits/rate-limit.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Decided, PhoneView } from "../otp/decisions/writes.ts";
import type { Instant } from "../system.ts";
import type { Erasure } from "./erasure.ts";
import type { EventStore } from "./events.ts";
import type { Finding } from "./finding.ts";
import type { Registry } from "./registry.ts";
import type { Samples } from "./sample.ts";
import type { Statistics } from "./statistics.ts";

/** The database could not do it. The caller may retry unchanged, unless it may have been done. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
  /** True where nobody knows whether the act was written: its commit was sent, and not answered. */
  readonly mayBeDone: boolean;

  constructor(message: string, { cause, mayBeDone = false }: { cause?: unknown; mayBeDone?: boolean } = {}) {
    super(message, { cause });
    this.mayBeDone = mayBeDone;
  }
}

/** A long read took too long, or found no room beside others: asked for less, it may do. */
export class LongReadEnded extends StoreUnavailable {}

/**
 * Where a phone's limits and history are kept: its index under every configured master key, the current one first. What
 * is found under an older key is merged (the stricter TAT wins) and moves to the current one with the next write, so
 * that rotating keys resets no limit.
 */
export interface PhoneRef {
  readonly indexes: readonly Uint8Array[];
  /** The key id of the current master key: what is written is kept for as long as that key may be needed. */
  readonly kid: number;
  /** Buckets of a known user's sends are apart from everyone's. */
  readonly knownUser: boolean;
  /** How many buckets there are: the number of phone limits in the policy. */
  readonly buckets: number;
  /** The named limits (otp/limits/named-limit.ts) that a send gives, or that may come back to a verification. */
  readonly limits?: readonly LimitRef[] | undefined;
  /** The prefix that its sends are judged and counted by. Undefined where none is. */
  readonly prefix?: PrefixRef | undefined;
  /** Whether its tenant has endpoints, so that what an act does is to be written down as events. */
  readonly hasWebhooks?: boolean | undefined;
}

/** Where the buckets of a named limit are kept: its indexes as above, and the limits that it has a bucket for each of. */
export interface LimitRef {
  readonly indexes: readonly Uint8Array[];
  readonly limits: readonly Limit[];
}

/** Tells where the phone of a verification is kept. Pure. */
export type PhoneOf = (verification: Verification) => PhoneRef;

/** A prefix of a tenant. It is kept in the clear, and no row of a verification or a phone leads to it. */
export interface PrefixName {
  readonly tenant: string;
  readonly prefix: string;
}

/** A prefix in the order of suspects. */
export interface SuspectKey extends PrefixName {
  /** When the guard decided about it last. */
  readonly latestMs: Instant;
}

/** Where a phone's prefix is kept. */
export interface PrefixRef {
  /**
   * Tells its name; undefined when the phone cannot be read. It may have to decrypt it, so it is asked only when the prefix
   * is needed. Pure.
   */
  readonly name: () => PrefixName | undefined;
  /** Whether what the guard finds is refused, or only noted. */
  readonly mode: GuardMode;
}

/** A decision about a prefix that was made and written. */
export interface NamedDecision extends PrefixName {
  readonly decision: PrefixDecision;
}

export interface PrefixView {
  readonly record: PrefixRecord;
  /** The latest first, at most `decisionsMax`. */
  readonly decisions: readonly PrefixDecision[];
}

export interface OpenScope {
  /** The tenant whose guesses the view holds. */
  readonly tenant: string;
  /** Where an earlier call with the same Idempotency-Key would be, if the call has one. */
  readonly slot: Slot | undefined;
  /** Undefined when the call was refused for its form and only its idempotency is to be looked up. */
  readonly phone: PhoneRef | undefined;
  /** The number to look up in the tenant's lists; undefined where no list is asked. */
  readonly number?: string | undefined;
  /** The caps that it is counted under: the view is to hold their counts. */
  readonly caps?: readonly Cap[] | undefined;
}

export interface UpdateScope {
  readonly tenant: string;
  readonly id: string;
  readonly slot: Slot | undefined;
  readonly phoneOf: PhoneOf;
  /** Whether the view is to hold the verification's prefix. */
  readonly withPrefix?: boolean;
  /** Tells the number to look up in the tenant's lists. Pure. */
  readonly numberOf?: (verification: Verification) => string | undefined;
  /** Tells the caps that it is counted under: the view is to hold their counts. Pure. */
  readonly capsOf?: (verification: Verification) => readonly Cap[];
}

/**
 * A message in hand: claimed, and to be settled before its lease (`message.dueMs`) ends. Shares of caps that it reached are
 * there where operators have not been warned of them yet.
 */
export interface Job extends SpendWarnings {
  readonly message: Message;
  readonly verification: Verification;
  /** When it was claimed. */
  readonly now: Instant;
  /** The call that hands it over, by its id; absent where it comes from the outbox. */
  readonly callId?: string | undefined;
}

/** The messages that are still to be handed to a provider. */
export interface Outbox {
  /** How many there are, in nobody's hand or in one; at most `outboxCountMax`. */
  readonly depth: number;
  /** For how long the one that waits longest has been due, in milliseconds; 0 when none is due. */
  readonly lagMs: number;
}

/** Further messages are not counted, since counting them would slow down the outbox. */
export const outboxCountMax = 10_000;

/** Measures the batches of acts that are committed together. */
export interface BatchMeter {
  /** The time on the meter's own clock. */
  begin(): number;
  /** Called once a batch is durable, or has failed as a whole. */
  end(batch: MeasuredBatch): void;
}

export interface MeasuredBatch {
  /** By the meter's own clock. */
  readonly began: number;
  /** How many acts were in it. */
  readonly acts: number;
  readonly isDurable: boolean;
}

export interface StoreWatchers {
  /** Tells what a message takes, for the statistics: its segments, and its cost where prices are known. Pure. */
  readonly chargeOf?: ChargeOf | undefined;
  /** Called with each decision about a prefix, once, when it is durable. */
  readonly onPrefix?: (decision: NamedDecision) => void;
  /** Called with each verification that the sweep has ended as expired. */
  readonly onExpired?: ((verification: Verification) => void) | undefined;
  /** Measures every batch of acts. */
  readonly meter?: BatchMeter | undefined;
}

/** What a sweep looks at: all there is, unless given, or what its time leads to. */
export type Sweeping = "all" | "found by time";

/** How many rows a sweep went over, and whether there are more. */
export interface Swept {
  readonly expired: number;
  readonly deleted: number;
  readonly more: boolean;
}

export interface Store {
  /** What operators write: API keys and the like. */
  readonly registry: Registry;
  /** Endpoints of tenants, and the events that they have not taken yet. */
  readonly events: EventStore;
  /** What operators look for. */
  readonly finding: Finding;
  readonly erasure: Erasure;

  /** Sums of what verifications came to. */
  readonly statistics: Statistics;

  /** Fills a development database. */
  readonly samples: Samples;

  /** The store's clock. */
  now(): Instant;

  /**
   * Decides a send. The view holds an earlier call's record and the phone's limits and history, all locked. With a phone it
   * also holds its prefix, and the guesses at its tenant that are committed; and what else the scope asks for.
   */
  openVerification<R>(scope: OpenScope, decide: (view: SendView) => Decided<R>): Promise<R>;

  /**
   * Decides about one verification. The view holds it (if it is this tenant's), its phone, an earlier call's record, and
   * what else the scope asks for.
   */
  updateVerification<R>(scope: UpdateScope, decide: (view: UpdateView) => Decided<R>): Promise<R>;

  /** Reads one verification, outside any decision. */
  readVerification(tenant: string, id: string): Promise<Verification | undefined>;

  /** Reads a phone's limits and history, outside any decision. */
  readPhone(phone: PhoneRef): Promise<PhoneView>;

  /** Reads what was guessed at each tenant in the window that `oldestMinute` begins. Absent means none. */
  readGuesses(): Promise<ReadonlyMap<string, Guesses>>;

  /** Reads up to `max` verifications of a phone, the newest first. `indexes` are the phone's, as in PhoneRef. */
  listVerifications(indexes: readonly Uint8Array[], max: number): Promise<Verification[]>;

  /** Fills every bucket of a phone and forgets its history, and writes the entry of the audit. Its verifications stay as they are. */
  resetPhone(phone: PhoneRef, noted?: Noted): Promise<void>;

  /** Reads what is known of a prefix, or undefined if that is nothing. */
  readPrefix(name: PrefixName): Promise<PrefixView | undefined>;

  /**
   * Finds prefixes that the guard has decided about, other than that a block passed: those of the latest such decision first,
   * up to `max` after `after`. Reads beside the calls.
   */
  findSuspects(query: {
    /** Undefined for all. */
    readonly tenant: string | undefined;
    readonly after: SuspectKey | undefined;
    readonly max: number;
  }): Promise<SuspectKey[]>;

  /**
   * Changes a prefix, as an operator does: `change` gets its record and the store's clock. False when it changes nothing;
   * else what is given a note writes its entry of the audit.
   */
  changePrefix(
    name: PrefixName,
    change: (record: PrefixRecord, now: Instant) => PrefixChange | undefined,
    note?: AuditNote,
  ): Promise<boolean>;

  /** Reads the messages of a verification, oldest first. */
  readMessages(id: string): Promise<Message[]>;

  /**
   * Notes the answer of a first call under its slot, or forgets the call (null) so that a retry is a first call again.
   * Leaves a record alone that is of another verification by now: it is another call's.
   */
  noteAnswer(slot: Slot, verificationId: string, answer: StoredAnswer | null): Promise<void>;

  /**
   * Claims up to `max` messages that are due, each for one worker alone. `decideLate` decides instead about those past
   * their deadline, those whose verification is no longer pending, and those that find no room under their tenant's daily
   * cap (otp/verification/daily-cap.ts), whose detail says so. It must leave them not due. `billOf` tells what a message is
   * counted by. Both are pure.
   */
  claimMessages(
    max: number,
    phoneOf: PhoneOf,
    decideLate: (view: SettleView) => Decided<unknown>,
    billOf: (verification: Verification, message: Message) => Bill,
  ): Promise<Job[]>;

  /** Gives claimed messages back unsent, due at once. One that is no longer claimed by this very claim is left alone. */
  releaseMessages(jobs: readonly Job[]): Promise<void>;

  /** Decides what a provider's answer or report means for a message. Resolves with undefined if there is no such message. */
  settleMessage<R>(
    name: { readonly verificationId: string; readonly copy: number },
    phoneOf: PhoneOf,
    decide: (view: SettleView) => Decided<R>,
  ): Promise<R | undefined>;

  /**
   * Decides up to `max` fallbacks that are due, each for one worker alone, and claims the messages that come of them. A
   * decision must leave its verification not due.
   */
  claimFallbacks(max: number, rules: FallbackRules): Promise<Job[]>;

  /** When the next message or fallback is due, or undefined when none is. */
  nextDue(): Promise<Instant | undefined>;

  /** Reads how much there is in the outbox, outside any decision. */
  readOutbox(): Promise<Outbox>;

  /**
   * Looks at up to `max` rows of each kind. Pending verifications past their time become EXPIRED and lose their salt. What
   * has ended is summed (statistics.ts). What is summed and past its retention is deleted, and so is every bucket, history, prefix, record and count that no longer matters.
   * Without `phoneOf`, where the keys are not at hand, expired verifications are not counted at their prefixes. Buckets,
   * histories, prefixes and records are not to be found by their time, so a round goes through them all; a sweep of what is
   * found by its time alone leaves them for later.
   */
  sweep(max: number, retentionMs: number, phoneOf?: PhoneOf, what?: Sweeping): Promise<Swept>;

  /**
   * Gives up to `max` records that an earlier version stored under a bare digest their keyed name: those that come after
   * `from` in the order of digests. Resolves with where to go on, undefined at the end. Costs nothing where there are none,
   * however many others there are. Safe to repeat, and to break off.
   */
  keySlots(from: Uint8Array, max: number, slotOf: SlotOf): Promise<Uint8Array | undefined>;

  /** Resolves when the database takes a write. */
  ping(): Promise<void>;

  /** Waits for what was begun, then lets go of the database. */
  close(): Promise<void>;
}

/** How fallbacks are decided: see `Store.claimFallbacks`. All are pure. */
export interface FallbackRules {
  readonly phoneOf: PhoneOf;
  /** Tells the number to look up in the tenant's lists. */
  readonly numberOf: (verification: Verification) => string | undefined;
  /** Tells the caps that its next message is counted under. */
  readonly capsOf: (verification: Verification) => readonly Cap[];
  readonly decide: (view: FallbackView) => Decided<Owed | undefined>;
}
