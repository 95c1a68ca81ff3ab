/**
 * Traffic to one prefix, for tests of the pumping guard: sends that arrive as they are told to, outcomes that come when
 * they would (a code is typed some 15 s after it was sent; one that is not ends after 10 minutes, noted by a sweep within
 * 15 s more), and the real rules between. No store: a prefix's record in a variable, and time that jumps.
 */
import {
  judgeSend,
  isTrip,
  recordOutcome,
  newPrefix,
  type DecisionKind,
  type PrefixChange,
  type PrefixRecord,
  type Tally,
} from "../../../src/otp/limits/pumping-guard.ts";
import type { State } from "../../../src/otp/state.ts";

const lifeMs = 600_000;

interface Waiting {
  readonly atMs: number;
  readonly createMs: number;
  readonly state: State;
  readonly tally: Tally;
}

export class Traffic {
  now: number;
  record: PrefixRecord = newPrefix;
  /** Sends that were let through, and those that were refused. */
  sent = 0;
  refused = 0;
  verified = 0;
  readonly made = new Map<DecisionKind, number>();
  /** How many sends there were at the first trip. */
  sentAtTrip: number | undefined;
  #waiting: Waiting[] = [];
  readonly #random: () => number;

  constructor(random: () => number, startMs: number) {
    this.#random = random;
    this.now = startMs + Math.floor(random() * 60_000);
  }

  /** Lets time pass; outcomes are counted when they come. */
  advance(ms: number): void {
    const until = this.now + ms;
    const due = this.#waiting.filter(({ atMs }) => atMs <= until).toSorted((a, b) => a.atMs - b.atMs);
    if (due.length > 0) this.#waiting = this.#waiting.filter(({ atMs }) => atMs > until);
    for (const ended of due) {
      this.now = Math.max(this.now, ended.atMs);
      if (ended.state === "VERIFIED") this.verified += 1;
      this.#take(recordOutcome(this.record, ended, this.now, "enforce"));
    }
    this.now = until;
  }

  /** Sends once, to somebody who types the code with this chance. False when it is refused. */
  send(conversion: number): boolean {
    const judgment = judgeSend(this.record, this.now, "enforce");
    this.#take(judgment.change);
    if (judgment.kind !== "admitted") {
      this.refused += 1;
      return false;
    }
    this.sent += 1;
    const isTyped = this.#random() < conversion;
    const takesMs = isTyped ? 5_000 + this.#random() * 20_000 : lifeMs + this.#random() * 15_000;
    const state = isTyped ? "VERIFIED" : "EXPIRED";
    this.#waiting.push({ atMs: Math.floor(this.now + takesMs), createMs: this.now, state, tally: judgment.tally });
    return true;
  }

  /** Sends for so long, at random moments, so often a minute. */
  arrive(ms: number, perMinute: number, conversion: number): void {
    for (const until = this.now + ms; ;) {
      const gapMs = (-Math.log(1 - this.#random()) * 60_000) / perMinute;
      if (this.now + gapMs >= until) return this.advance(until - this.now);
      this.advance(gapMs);
      this.send(conversion);
    }
  }

  isTripped(): boolean {
    return this.sentAtTrip !== undefined;
  }

  count(kind: DecisionKind): number {
    return this.made.get(kind) ?? 0;
  }

  #take(change: PrefixChange | undefined): void {
    if (change === undefined) return;
    this.record = change.record;
    for (const decision of change.decisions) {
      this.made.set(decision.kind, this.count(decision.kind) + 1);
      if (isTrip(decision)) this.sentAtTrip ??= this.sent;
    }
  }
}
