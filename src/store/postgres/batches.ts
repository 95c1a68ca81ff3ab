/**
 * Acts on PostgreSQL in batches. Acts that arrive together share one transaction and its three round trips: lock and
 * load what the acts name, lock and load what belongs to that (load.ts), write and commit (write.ts). Locks are taken
 * in one order everywhere (slots, verifications, phones, prefixes, days; ascending within each), so that batches of any
 * instance queue up and do not deadlock. No act is answered before the commit.
 */
import { stopwatchMs } from "../../system.ts";
import { StoreUnavailable, type BatchMeter, type NamedDecision, type StoreWatchers } from "../store.ts";
import type { Act } from "../unit-of-work.ts";
import type { StoreClock } from "./clock.ts";
import { beginByKey, type Connections } from "./connections.ts";
import { isLotTaken } from "./faults.ts";
import { load } from "./load.ts";
import { DayTurned, Lots } from "./lots.ts";
import type { PostgresUnitOfWork } from "./unit-of-work.ts";
import { write } from "./write.ts";

interface Waiting {
  readonly act: Act<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const batchActsMax = 128;
/**
 * Transactions under way. A transaction's cost hardly depends on how many acts it has. So near the database there is
 * one at a time, and the next takes all acts that came meanwhile. Across a network acts would wait too long that way.
 */
const batchesMax = 3;
/** Below this a round trip is one within a data center: its price is less than that of more batches. */
const nearbyMs = 3;
/** Acts wait no longer than this for a batch that waits for another instance's lock. */
const stalledMs = 50;
/**
 * After a batch of several acts the next one waits for the callers that were answered: from the first of them on, half as
 * long as the batch took and no longer than this. If it began at once, it would have half of all callers and the other
 * half would wait for it: twice as many batches.
 */
const gatherMaxMs = 10;
const queueActsMax = 4_096;

const nobody = { acts: 0, untilMs: 0, waitMs: 0 };

export class Batches {
  readonly #connections: Connections;
  readonly #clock: StoreClock;
  readonly #onPrefix: (decision: NamedDecision) => void;
  readonly #meter: BatchMeter | undefined;
  readonly #ownName: string;
  readonly #given: number | undefined;
  readonly #watchMs: () => number;
  /** Those of which no batch under way makes use. */
  readonly #lots: Lots[] = [];
  readonly #queue: Waiting[] = [];
  #underWay = 0;
  #scheduled = false;
  #closed = false;
  #whenIdle: (() => void)[] = [];
  /** Runs while acts wait for the one batch under way. */
  #stall: NodeJS.Timeout | undefined;
  #isStalled = false;
  /** For how many acts the next batch waits, if the first of them comes by then, and for how long from that one on. */
  #gather = nobody;
  #gathering: NodeJS.Timeout | undefined;

  constructor(
    connections: Connections,
    clock: StoreClock,
    ownName: string,
    { onPrefix, meter }: StoreWatchers,
    { atOnce, watchMs = stopwatchMs }: { readonly atOnce?: number | undefined; readonly watchMs?: () => number } = {},
  ) {
    this.#given = atOnce;
    this.#watchMs = watchMs;
    this.#ownName = ownName;
    this.#meter = meter;
    this.#connections = connections;
    this.#clock = clock;
    this.#onPrefix = onPrefix ?? (() => {});
  }

  /** Runs an act within the next batch; resolves with its value once that is durable. */
  run<T>(act: Act<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (this.#queue.length >= queueActsMax) return Promise.reject(new StoreUnavailable("too many acts are waiting"));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ act, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  /** Takes no more acts, and waits for those there are. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#underWay > 0 || this.#queue.length > 0)
      await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    if (this.#underWay >= this.#atOnce()) return this.#watchForStall();
    if (this.#waits()) return;
    this.#scheduled = true;
    // What else arrives in this turn comes along.
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#queue.length === 0) return;
      this.#underWay += 1;
      void this.#performNext();
      this.#schedule();
    });
  }

  /** Whether the next batch waits for those that the last one has answered. */
  #waits(): boolean {
    const { acts, untilMs, waitMs } = this.#gather;
    const isExpecting = this.#gathering !== undefined || this.#watchMs() < untilMs;
    if (this.#underWay === 0 && this.#queue.length < acts && isExpecting) {
      this.#gathering ??= setTimeout(() => this.#endGathering(), waitMs);
      return true;
    }
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    return false;
  }

  #endGathering(): void {
    this.#gather = nobody;
    this.#schedule();
  }

  #atOnce(): number {
    if (this.#given !== undefined) return this.#given;
    return this.#isStalled || this.#connections.roundTripMs() >= nearbyMs ? batchesMax : 1;
  }

  #watchForStall(): void {
    this.#stall ??= setTimeout(() => {
      this.#isStalled = true;
      this.#schedule();
    }, stalledMs);
  }

  async #performNext(): Promise<void> {
    const lots = this.#lots.pop() ?? new Lots(`${this.#ownName}.${this.#underWay}`);
    const batch = this.#queue.splice(0, batchActsMax);
    const beganMs = this.#watchMs();
    await this.#perform(batch, lots);
    const endMs = this.#watchMs();
    const tookMs = endMs - beganMs;
    const acts = Math.min(batch.length + this.#queue.length, batchActsMax);
    const waitMs = Math.min(tookMs / 2, gatherMaxMs);
    this.#gather = batch.length === 1 ? nobody : { acts, untilMs: endMs + tookMs, waitMs };
    this.#lots.push(lots);
    this.#underWay -= 1;
    clearTimeout(this.#stall);
    this.#stall = undefined;
    this.#isStalled = false;
    this.#schedule();
    if (this.#underWay === 0 && this.#queue.length === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #perform(batch: readonly Waiting[], lots: Lots): Promise<void> {
    const began = this.#meter?.begin() ?? 0;
    let written: { readonly unit: PostgresUnitOfWork; readonly outcomes: readonly Outcome<unknown>[] };
    try {
      written = await this.#connections.transact(async (transaction) => {
        const acts = batch.map(({ act }) => act);
        const unit = await load(transaction, this.#clock, acts, lots);
        const outcomes = acts.map((act) => performed(act, unit));
        write(transaction, unit);
        return { unit, outcomes };
      }, beginByKey);
    } catch (error) {
      const isOutdated = error instanceof DayTurned || isLotTaken(error);
      // Whether a lot that may have been used was used is not known either.
      if (isLotTaken(error) || error instanceof StoreUnavailable) lots.forget();
      if (isOutdated) return this.#perform(batch, lots);
      // A fault of one act (its values were refused, it failed half way) took its neighbours' with it: each by itself then.
      if (batch.length > 1 && !(error instanceof StoreUnavailable)) {
        for (const waiting of batch) await this.#perform([waiting], lots);
      } else {
        if (error instanceof StoreUnavailable) this.#meter?.end({ began, acts: batch.length, isDurable: false });
        const why = error instanceof HalfDone ? error.why : error;
        for (const { reject } of batch) reject(why);
      }
      return;
    }
    this.#meter?.end({ began, acts: batch.length, isDurable: true });
    const { unit, outcomes } = written;
    unit.countedUp();
    for (const [i, { resolve, reject }] of batch.entries()) {
      const outcome = outcomes[i];
      if (outcome?.ok === true) resolve(outcome.value);
      else reject(outcome?.error);
    }
    unit.decided.forEach(this.#onPrefix);
  }
}

type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };

/** An act failed after it had begun to change what the batch shares: nothing of the batch may be written. */
class HalfDone extends Error {
  readonly why: unknown;

  constructor(why: unknown) {
    super("an act failed half way");
    this.why = why;
  }
}

function performed<T>(act: Act<T>, unit: PostgresUnitOfWork): Outcome<T> {
  const { changesMade } = unit;
  try {
    return { ok: true, value: act.run(unit) };
  } catch (error) {
    if (unit.changesMade !== changesMade) throw new HalfDone(error);
    return { ok: false, error };
  }
}
