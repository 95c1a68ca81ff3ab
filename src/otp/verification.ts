/**
 * A verification is one attempt to prove that a person holds one phone number: what is kept of it, its states, and what
 * a decision about it may write. The decisions are in decisions.ts and settlement.ts.
 */
import type { Instant } from "../system.ts";
import type { Channel } from "./channel.ts";
import type { DailyCount } from "./daily-cap.ts";
import type { SpendWarning } from "./event.ts";
import type { IdempotencyRecord } from "./idempotency.ts";
import { withEntry, type Happening, type Log, type LogEntry } from "./log.ts";
import type { Delivery, Message } from "./message.ts";
import type { LimitTats } from "./named-limit.ts";
import type { PhoneHistory } from "./policy.ts";
import type { PrefixChange, Tally } from "./pumping-guard.ts";
import type { Reason } from "./reason.ts";
import type { AndroidAppHash, WebOrigin } from "./template/last-line.ts";

/** PENDING leaves once, for one of the others; those never change. */
export type State = "PENDING" | "VERIFIED" | "EXPIRED" | "LOCKED" | "CANCELED" | "FAILED";

export interface Verification {
  /** The wire's request_id: 22 characters of base64url, 128 random bits. */
  readonly id: string;
  readonly tenant: string;
  /** The API key that opened it. */
  readonly keyId: string;
  /** The master key that its code, its phone's index and its phone's box were made with. */
  readonly kid: number;
  /** Half of what the code is derived from. Null from the moment of a terminal state: then nothing verifies. */
  readonly salt: Uint8Array | null;
  readonly phoneIndex: Uint8Array;
  /** The phone, encrypted for this row alone. */
  readonly phoneBox: Uint8Array;
  /** The phone's country. */
  readonly region: string;
  /** The language of its messages, as it was chosen when it opened. */
  readonly locale: string;
  /** The channel that it was asked for by. Its resends take the same. */
  readonly channel: Channel;
  readonly purpose: string;
  /** The binding in canonical form (`canonicalBind`), or "". */
  readonly bind: string;
  /** What the last line of its messages is for. One of the two at most. */
  readonly webOrigin: WebOrigin | undefined;
  readonly appHash: AndroidAppHash | undefined;
  readonly knownUser: boolean;
  /** What its outcome counts for at its prefix. */
  readonly tally: Tally;
  readonly state: State;
  /** How far the latest message got. */
  readonly delivery: Delivery;
  /** Digits of the code, 6 to 10. */
  readonly digits: number;
  /** Codes compared so far, 0 to attemptsMax. */
  readonly attempts: number;
  readonly attemptsMax: number;
  /** Resends used. */
  readonly resends: number;
  /** When the next resend is allowed, if one is left. */
  readonly nextResendMs: Instant;
  readonly createMs: Instant;
  readonly expireMs: Instant;
  /** When it reached its terminal state, or null. */
  readonly endMs: Instant | null;
  readonly log: Log;
}

/** What a decision wants written. Absent parts stay as they are. */
export interface Writes {
  /** A new verification, or the new form of the loaded one. */
  readonly verification?: Verification;
  /** A new message, or the new form of the loaded one. */
  readonly message?: Message;
  /** The TATs of the phone's buckets, one per phone limit in the policy's order. */
  readonly tats?: readonly Instant[];
  readonly history?: PhoneHistory;
  /** The TATs of the limits that the send names, of each in its order. */
  readonly limitTats?: readonly LimitTats[];
  /** The prefix as a send leaves it. What an end means for it, the store works out by itself. */
  readonly prefix?: PrefixChange;
  readonly record?: IdempotencyRecord;
  /** A code that was compared, for its tenant's count. */
  readonly guess?: { readonly tenant: string; readonly isRight: boolean };
  /** The tenant's day under the daily cap. */
  readonly daily?: DailyCount;
  /** The share of the daily cap that was reached with it. */
  readonly warned?: SpendWarning;
}

/** A decision: what to write, and what to answer. */
export interface Decided<R> {
  readonly writes: Writes;
  readonly result: R;
}

/** What the store has loaded and locked about a phone. */
export interface PhoneView {
  /** The TATs of the phone's buckets, one per phone limit in the policy's order; 0 for a new one. */
  readonly tats: readonly Instant[];
  readonly history: PhoneHistory;
  /** Attempts left on all its pending, unexpired verifications. */
  readonly openAttempts: number;
  /** The TATs of the limits that a send names, in their order; absent where it names none. */
  readonly limitTats?: readonly LimitTats[] | undefined;
}

export const noWrites: Writes = {};

/** Writes nothing. */
export function nothing<R>(result: R): Decided<R> {
  return { writes: noWrites, result };
}

const terminalReasons = {
  VERIFIED: "OTP_ALREADY_VERIFIED",
  EXPIRED: "OTP_EXPIRED",
  LOCKED: "OTP_LOCKED",
  CANCELED: "OTP_CANCELED",
  FAILED: "OTP_FAILED",
} as const satisfies Record<Exclude<State, "PENDING">, Reason>;

export function terminalReason(state: Exclude<State, "PENDING">): Reason {
  return terminalReasons[state];
}

/** The state at a moment: a pending verification has expired from its expireMs on, whether a sweep has noted it or not. */
export function stateAt(verification: Verification, now: Instant): State {
  return verification.state === "PENDING" && now >= verification.expireMs ? "EXPIRED" : verification.state;
}

/** A verification brought to its end: the salt goes with the state. Pure. */
export function end(verification: Verification, state: Exclude<State, "PENDING">, now: Instant): Verification {
  return withNote({ ...verification, state, salt: null, endMs: now }, { kind: "end", outcome: state }, now);
}

/** What is noted: what of it is not said is about no provider, and the latest message. */
type Note = { [Kind in Happening["kind"]]: NoteOf<Extract<Happening, { kind: Kind }>> }[Happening["kind"]];
type NoteOf<H extends Happening> = Pick<H, "kind" | "outcome"> & Partial<Pick<H, "copy" | "provider">>;

/** A verification with something noted that happened to it. Pure. */
export function withNote(verification: Verification, note: Note, now: Instant): Verification {
  const { kind, outcome, copy = verification.resends, provider = null } = note;
  const offsetMs = Math.max(0, now - verification.createMs);
  const entry = { kind, outcome, copy: Math.min(15, copy), provider, offsetMs } as LogEntry;
  return { ...verification, log: withEntry(verification.log, entry) };
}

/** The channels that the messages of a verification were owed by, in the order in which each came up first. Pure. */
export function channelsUsed({ log, resends, channel }: Verification): readonly Channel[] {
  const byCopy = new Map<number, Channel>([[0, channel]]);
  for (const entry of log.entries) if (entry.kind === "resend") byCopy.set(entry.copy, entry.outcome);
  // A resend that never left is taken back, and its copy is the next one's.
  const used = [...byCopy].filter(([copy]) => copy <= resends).toSorted(([a], [b]) => a - b);
  return [...new Set(used.map(([, each]) => each))];
}

/** A pending verification whose time is over, brought to EXPIRED as of that time. Pure. */
export function expire(verification: Verification): Verification {
  return end(verification, "EXPIRED", verification.expireMs);
}

/** One form for every spelling of a binding: its entries sorted by key, as JSON; "" for an empty one. */
export function canonicalBind(bind: Readonly<Record<string, string>>): string {
  const entries = Object.entries(bind).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.length === 0 ? "" : JSON.stringify(entries);
}

/** A binding, of its canonical form. Pure. */
export function bindOf(canonical: string): Readonly<Record<string, string>> {
  return canonical === "" ? {} : Object.fromEntries(JSON.parse(canonical) as [string, string][]);
}
