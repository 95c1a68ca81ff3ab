/**
 * A verification is one attempt to prove that a person holds one phone number. Here is what is kept of it, with the log of
 * what happened to it; how it comes to its end; and what it is called in logs. The decisions about it are in
 * otp/decisions/.
 */
import type { Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import { withoutNext, type Fallback } from "../message/fallback.ts";
import type { Delivery, SendOutcome } from "../message/message.ts";
import type { SpentLimit } from "../limits/named-limit.ts";
import type { Tally } from "../limits/pumping-guard.ts";
import type { State } from "../state.ts";
import type { AndroidAppHash, WebOrigin } from "../template/last-line.ts";
import type { EventType } from "../event-type.ts";

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
  /** By which channels it goes on; null for one that was asked for by a single channel. */
  readonly fallback: Fallback | null;
  /** The named limits that come back should nothing of it leave; none once one of its messages may have left. */
  readonly spentLimits: readonly SpentLimit[];
}

/** No verification lives longer. */
export const lifeMaxMs = 600_000;

/** The state at a moment: a pending verification has expired from its expireMs on, whether a sweep has noted it or not. */
export function stateAt(verification: Verification, now: Instant): State {
  return verification.state === "PENDING" && now >= verification.expireMs ? "EXPIRED" : verification.state;
}

/** A verification brought to its end: the salt goes with the state. Pure. */
export function end(verification: Verification, state: Exclude<State, "PENDING">, now: Instant): Verification {
  const fallback = withoutNext(verification.fallback);
  const ended = { ...verification, state, delivery: deliveryAtEnd(verification), salt: null, endMs: now, fallback };
  return withNote(ended, { kind: "end", outcome: state }, now);
}

/** How far the latest message got. Where that has never left, QUEUED is the next channel's, which does not come any more. */
function deliveryAtEnd(verification: Verification): Delivery {
  const { delivery, fallback, log } = verification;
  const latest = latestCopy(verification);
  if (delivery !== "QUEUED" || fallback?.unsent.includes(latest) !== true) return delivery;
  const call = log.entries.findLast(({ kind, copy }) => kind === "call" && copy === latest);
  return call?.outcome === "given-up" ? "EXPIRED" : "REJECTED";
}

/** What is noted: what of it is not said is about no provider, and the latest message. */
type Note = { [Kind in Happening["kind"]]: NoteOf<Extract<Happening, { kind: Kind }>> }[Happening["kind"]];
type NoteOf<H extends Happening> = Pick<H, "kind" | "outcome"> & Partial<Pick<H, "copy" | "provider">>;

/** A verification with something noted that happened to it. Pure. */
export function withNote(verification: Verification, note: Note, now: Instant): Verification {
  const { kind, outcome, copy = latestCopy(verification), provider = null } = note;
  const offsetMs = Math.max(0, now - verification.createMs);
  const entry = { kind, outcome, copy: Math.min(copyMax, copy), provider, offsetMs } as LogEntry;
  return { ...verification, log: withEntry(verification.log, entry) };
}

/** The copy of the latest message: those owed by fallback come before those of resends, since a resend ends the plan. Pure. */
export function latestCopy({ resends, fallback }: Pick<Verification, "resends" | "fallback">): number {
  return resends + (fallback?.owed ?? 0);
}

/**
 * The message that a verification's delivery is of, among its own in their order: its latest. Resends that never left are taken
 * back: the delivery stays theirs, the last's that was, until a report on the message before has moved it. Pure.
 */
export function messageShown<M extends { readonly copy: number; readonly delivery: Delivery }>(
  verification: Pick<Verification, "resends" | "fallback" | "delivery">,
  messages: readonly M[],
): M | undefined {
  const last = messages.at(-1);
  const latest = latestCopy(verification);
  if (last === undefined || last.copy <= latest) return last;
  const of = messages.findLast(({ copy, delivery }) => copy >= latest && delivery === verification.delivery);
  return of ?? messages.find(({ copy }) => copy === latest);
}

/** How many messages a verification has spent and not got back: what a success gives back. Pure. */
export function messagesSpent(verification: Verification): number {
  return 1 + latestCopy(verification) - (verification.fallback?.unsent.length ?? 0);
}

/** True once nothing of a verification that fell back has left, and nothing of it is owed any more. Pure. */
export function isAllUnsent({ resends, fallback }: Pick<Verification, "resends" | "fallback">): boolean {
  return fallback !== null && fallback.dueMs === null && resends === 0 && fallback.unsent.length === 1 + fallback.owed;
}

/** A verification whose named limits do not come back any more: one of its messages may have left, or they have. Pure. */
export function withoutSpentLimits(verification: Verification): Verification {
  return verification.spentLimits.length === 0 ? verification : { ...verification, spentLimits: [] };
}

/**
 * The channels that the messages of a verification were owed by, in the order in which each came up first; those
 * of messages that are proven never to have left are left out. Those of messages that wait, for a provider that takes none, are in. Pure.
 */
export function channelsUsed(verification: Verification): readonly Channel[] {
  const { log, channel, fallback } = verification;
  const byCopy = new Map<number, Channel>([[0, channel]]);
  for (const entry of log.entries) {
    if (isMessage(entry)) byCopy.set(entry.copy, entry.outcome);
  }
  // A resend that never left is taken back, and its copy is the next one's.
  const owed = [...byCopy].filter(([copy]) => copy <= latestCopy(verification)).toSorted(([a], [b]) => a - b);
  const left = owed.filter(([copy]) => fallback?.unsent.includes(copy) !== true);
  return [...new Set((left.length > 0 ? left : owed).map(([, each]) => each))];
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

// ---- its log ---------------------------------------------------------------------------------------------------------

// What happened to a verification, in order, for whoever runs the service. It is kept in the verification's row and written
// with the change that it tells of. It holds no code, no number and no stranger's words.

/** What a provider's call came to: why it was refused is its cause. `given-up`: none was made any more. */
export type ProviderCallOutcome =
  | Exclude<SendOutcome["kind"], "refused">
  | "delivered"
  | "undelivered"
  | Extract<SendOutcome, { kind: "refused" }>["cause"]
  | "given-up";

/** What may happen, and what it may come to. */
export interface Outcomes {
  readonly send: Channel;
  readonly resend: Channel;
  readonly fallback: Channel;
  readonly call: ProviderCallOutcome;
  /** What a provider said later. */
  readonly report: "ACCEPTED" | "DELIVERED" | "UNDELIVERED";
  readonly guess: "right" | "wrong";
  readonly end: Exclude<State, "PENDING">;
  /** An event that an endpoint has taken. */
  readonly posted: EventType;
  /** An event that an endpoint did not take, and that is not posted to it again. */
  readonly dropped: EventType;
}

export type Happening = {
  [Kind in keyof Outcomes]: {
    readonly kind: Kind;
    readonly outcome: Outcomes[Kind];
    /** Which message it is about, or was the latest then; 0 to 15, which stands for all beyond. */
    readonly copy: number;
    /** Whose call or report it is; null for all else. */
    readonly provider: string | null;
  };
}[keyof Outcomes];

export type LogEntry = Happening & {
  /** Milliseconds since the verification was opened. */
  readonly offsetMs: number;
};

export interface Log {
  /** In the order in which they were noted; `entriesMax` at most. */
  readonly entries: readonly LogEntry[];
  /** How many were left out between the first half and the second, up to 255. */
  readonly omitted: number;
}

export const entriesMax = 32;
/** It stands for all copies beyond, too. */
export const copyMax = 15;
export const emptyLog: Log = { entries: [], omitted: 0 };

/** Whether an entry is of a message that was owed after the first. Pure. */
function isMessage(entry: LogEntry): entry is Extract<LogEntry, { kind: "resend" | "fallback" }> {
  return entry.kind === "resend" || entry.kind === "fallback";
}

/** Whether a provider asks to wait, which it may do for as long as there is time. Pure. */
function isPutOff({ kind, outcome }: LogEntry): boolean {
  return kind === "call" && outcome === "throttled";
}

/** The log with one more entry. One that is full keeps how it began, what was owed, and what came last. Pure. */
export function withEntry({ entries, omitted }: Log, entry: LogEntry): Log {
  if (entries.length < entriesMax) return { entries: [...entries, entry], omitted };
  const half = entriesMax / 2;
  // What has never left is taken back: a later message has its copy then.
  const isTakenBack = ({ copy }: LogEntry, i: number) =>
    [...entries.slice(i + 1), entry].some((later) => isMessage(later) && later.copy === copy);
  // What a provider says over and over makes room first: what became of the message is told by others.
  const isSaidAgain = (each: LogEntry, i: number) =>
    isPutOff(each) &&
    [...entries.slice(i + 1), entry].some(
      (later) => isPutOff(later) && later.copy === each.copy && later.provider === each.provider,
    );
  const again = entries.findIndex((each, i) => i >= half && isSaidAgain(each, i));
  const first = entries.findIndex((each, i) => i >= half && (!isMessage(each) || isTakenBack(each, i)));
  const left = again < 0 ? first : again;
  return { entries: [...entries.toSpliced(left < 0 ? half : left, 1), entry], omitted: Math.min(255, omitted + 1) };
}

/** How a call ended, as the log says it. Pure. */
export function callOutcome(outcome: SendOutcome): ProviderCallOutcome {
  if (outcome.kind === "refused") return outcome.cause;
  if (outcome.kind !== "accepted" || outcome.delivery === undefined) return outcome.kind;
  return outcome.delivery === "DELIVERED" ? "delivered" : "undelivered";
}

// ---- its reference ---------------------------------------------------------------------------------------------------

/**
 * What a request_id is called in logs, in the audit and in the console: its first 12 characters. The rest is withheld, since
 * whoever has a page's key could cancel with a whole one.
 */
const refChars = 12;

/** The reference of an id, 12 characters of base64url. Pure. */
export const requestRef = (id: string): string => id.slice(0, refChars);

/** The reference of what an operator names a verification by: its id or its reference. Undefined for what is neither. Pure. */
export function requestRefNamed(said: unknown): string | undefined {
  return typeof said === "string" && /^[A-Za-z0-9_-]{12}(?:[A-Za-z0-9_-]{10})?$/.test(said)
    ? requestRef(said)
    : undefined;
}

/** The reference of what a caller says is an id; undefined for text that is not an id. Pure. */
export function requestRefOf(said: unknown): string | undefined {
  return typeof said === "string" && /^[A-Za-z0-9_-]{22}$/.test(said) ? requestRef(said) : undefined;
}
