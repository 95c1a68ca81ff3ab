/**
 * The log of a verification: what happened to it, in order, for whoever runs the service. It is kept in the verification's
 * row and written with the change that it tells of. It holds no code, no number and no stranger's words.
 */
import type { Channel } from "./channel.ts";
import type { EventType } from "./event-type.ts";
import type { SendOutcome } from "./message.ts";
import type { State } from "./state.ts";

/** What a provider's call came to: why it was refused is its cause. `given-up`: none was made any more. */
export type CallOutcome =
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
  readonly call: CallOutcome;
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
export const emptyLog: Log = { entries: [], omitted: 0 };

/** The log with one more entry. One that is full keeps how it began, what was owed, and what came last. Pure. */
export function withEntry({ entries, omitted }: Log, entry: LogEntry): Log {
  if (entries.length < entriesMax) return { entries: [...entries, entry], omitted };
  const half = entriesMax / 2;
  const left = entries.findIndex((each, i) => i >= half && each.kind !== "resend" && each.kind !== "fallback");
  return { entries: [...entries.toSpliced(left < 0 ? half : left, 1), entry], omitted: Math.min(255, omitted + 1) };
}

/** How a call ended, as the log says it. Pure. */
export function callOutcome(outcome: SendOutcome): CallOutcome {
  if (outcome.kind === "refused") return outcome.cause;
  if (outcome.kind !== "accepted" || outcome.delivery === undefined) return outcome.kind;
  return outcome.delivery === "DELIVERED" ? "delivered" : "undelivered";
}
