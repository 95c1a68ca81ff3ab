/**
 * What a batch of acts has loaded and locked, and what they change of it. The acts run one after the other, and each sees
 * what those before it have changed; then everything that was changed is written at once.
 */
import { newDay, type DailyCount } from "../../otp/daily-cap.ts";
import type { Verdict } from "../../otp/destination.ts";
import { eventsOf, fraudEvent, spendEvent, type Loaded, type OwedEvent } from "../../otp/event.ts";
import { latestOf, type IdempotencyRecord, type Slot } from "../../otp/idempotency.ts";
import type { Message } from "../../otp/message.ts";
import { emptyHistory, type PhoneHistory } from "../../otp/policy.ts";
import { isTrip, mature, newPrefix, type PrefixChange, type PrefixRecord } from "../../otp/pumping-guard.ts";
import { minuteOf, type Guesses } from "../../otp/spray.ts";
import { stateAt, type Decided, type PhoneView, type Verification, type Writes } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { bucketKey, mergeHistories } from "../rows/phone.ts";
import type { PhoneRef, PrefixName, PrefixNews, PrefixRef } from "../store.ts";

const name = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
export const prefixKey = ({ tenant, prefix }: PrefixName) => `${tenant} ${prefix}`;
const messageName = (verificationId: string, copy: number) => `${verificationId}.${copy}`;

/** One kind of thing: as it is now, and which of it has to be written. */
class Things<T> {
  readonly #all = new Map<string, T>();
  readonly #changed = new Set<string>();

  load(key: string, thing: T): void {
    this.#all.set(key, thing);
  }
  get(key: string): T | undefined {
    return this.#all.get(key);
  }
  put(key: string, thing: T): void {
    this.#all.set(key, thing);
    this.#changed.add(key);
  }
  remove(key: string): void {
    this.#all.delete(key);
    this.#changed.add(key);
  }
  /** What is to be written, and what is to be deleted. */
  changes(): { written: T[]; deleted: string[] } {
    const written: T[] = [];
    const deleted: string[] = [];
    for (const key of this.#changed) {
      const thing = this.#all.get(key);
      if (thing === undefined) deleted.push(key);
      else written.push(thing);
    }
    return { written, deleted };
  }
}

interface Tat {
  readonly bucket: Buffer;
  readonly tatMs: Instant;
  readonly kid: number;
}

interface Past {
  readonly index: Uint8Array;
  readonly history: PhoneHistory;
  readonly kid: number;
}

interface KnownPrefix {
  readonly name: PrefixName;
  readonly record: PrefixRecord;
}

interface Day {
  readonly tenant: string;
  readonly daily: DailyCount;
}

/** Codes compared in one minute of one tenant, to be added to those there are. */
interface Count extends Guesses {
  readonly tenant: string;
  readonly minute: number;
}

export class Work {
  /** The store's clock, once everything is locked. */
  now: Instant = 0;
  /** True once a decision has become changes in part: what failed there cannot be told from its neighbours' work. */
  isHalfDone = false;
  readonly verifications = new Things<Verification>();
  /** Those that no database has yet. */
  readonly newVerifications = new Set<string>();
  readonly messages = new Things<Message>();
  readonly records = new Things<IdempotencyRecord>();
  readonly tats = new Things<Tat>();
  readonly pasts = new Things<Past>();
  readonly prefixes = new Things<KnownPrefix>();
  /** Days of tenants under a cap, by tenant. */
  readonly days = new Things<Day>();
  /** The word of the lists on a number, by tenant and number. */
  readonly verdicts = new Map<string, Verdict>();
  /** What tenants' endpoints are to be told. */
  readonly events: OwedEvent[] = [];
  /** Decisions about prefixes, to be written and then told. */
  readonly news: PrefixNews[] = [];
  /** What was guessed at each tenant, as far as it was committed. */
  readonly guesses = new Map<string, Guesses>();
  readonly counts = new Map<string, Count>();
  readonly #openAttempts = new Map<string, number>();

  loadTat(bucket: Uint8Array, tatMs: Instant): void {
    this.tats.load(name(bucket), { bucket: Buffer.from(bucket), tatMs, kid: 0 });
  }
  loadPast(index: Uint8Array, history: PhoneHistory): void {
    this.pasts.load(name(index), { index, history, kid: 0 });
  }
  loadOpenAttempts(index: Uint8Array, open: number): void {
    this.#openAttempts.set(name(index), open);
  }

  recordsOf({ names }: Slot): IdempotencyRecord[] {
    return names.flatMap((each) => this.records.get(name(each)) ?? []);
  }
  record(slot: Slot | undefined): IdempotencyRecord | undefined {
    return slot === undefined ? undefined : latestOf(this.recordsOf(slot));
  }
  putRecord(record: IdempotencyRecord): void {
    this.records.put(name(record.slot), record);
  }
  loadRecord(record: IdempotencyRecord): void {
    this.records.load(name(record.slot), record);
  }
  removeRecord(stored: Uint8Array): void {
    this.records.remove(name(stored));
  }

  message(verificationId: string, copy: number): Message | undefined {
    return this.messages.get(messageName(verificationId, copy));
  }
  loadMessage(message: Message): void {
    this.messages.load(messageName(message.verificationId, message.copy), message);
  }
  putMessage(message: Message): void {
    this.messages.put(messageName(message.verificationId, message.copy), message);
  }

  /** A phone's limits and past, merged over every master key it may be indexed by. */
  phone(ref: PhoneRef): PhoneView {
    const tats = Array.from({ length: ref.buckets }, (_, place) =>
      ref.indexes.reduce(
        (latest, index) => Math.max(latest, this.tats.get(name(bucketKey(index, ref.knownUser, place)))?.tatMs ?? 0),
        0,
      ),
    );
    let history = emptyHistory;
    let openAttempts = 0;
    for (const index of ref.indexes) {
      const past = this.pasts.get(name(index));
      if (past !== undefined) history = mergeHistories(history, past.history);
      openAttempts += this.#openAttempts.get(name(index)) ?? 0;
    }
    return { tats, history, openAttempts };
  }

  forgetPhone({ indexes, buckets }: PhoneRef): void {
    for (const index of indexes) {
      this.pasts.remove(name(index));
      for (let place = 0; place < buckets; place++) {
        for (const knownUser of [false, true]) this.tats.remove(name(bucketKey(index, knownUser, place)));
      }
    }
  }

  putVerification(verification: Verification): void {
    const before = this.verifications.get(verification.id);
    if (before === undefined) this.newVerifications.add(verification.id);
    this.verifications.put(verification.id, verification);
    const key = name(verification.phoneIndex);
    const change = this.#open(verification) - (before === undefined ? 0 : this.#open(before));
    this.#openAttempts.set(key, (this.#openAttempts.get(key) ?? 0) + change);
  }

  #open(v: Verification): number {
    return stateAt(v, this.now) === "PENDING" ? v.attemptsMax - v.attempts : 0;
  }

  /** The one place where a decision becomes changes; gives its result. `loaded` is what it was made about. */
  apply<R>(tenant: string, ref: PhoneRef | undefined, loaded: Omit<Loaded, "now">, { writes, result }: Decided<R>): R {
    const { verification: before } = loaded;
    this.isHalfDone = true;
    this.putDaily(tenant, writes);
    if (writes.verification !== undefined && writes.verification !== before) this.putVerification(writes.verification);
    if (writes.message !== undefined) this.putMessage(writes.message);
    if (ref !== undefined) {
      const [current = new Uint8Array(), ...older] = ref.indexes;
      for (const [place, tatMs] of writes.tats?.entries() ?? []) {
        const bucket = bucketKey(current, ref.knownUser, place);
        this.tats.put(name(bucket), { bucket, tatMs, kid: ref.kid });
        for (const index of older) this.tats.remove(name(bucketKey(index, ref.knownUser, place)));
      }
      if (writes.history !== undefined) {
        for (const index of older) this.pasts.remove(name(index));
        this.pasts.put(name(current), { index: current, history: writes.history, kid: ref.kid });
      }
    }
    if (writes.guess !== undefined) this.#count(writes.guess);
    const of = writes.prefix === undefined ? undefined : ref?.prefix?.name();
    if (writes.prefix !== undefined && of !== undefined) this.putPrefix(of, writes.prefix);
    if (before?.state === "PENDING" && writes.verification !== undefined && writes.verification.state !== "PENDING") {
      this.mature(writes.verification, ref?.prefix);
    }
    if (writes.record !== undefined) this.putRecord(writes.record);
    if (ref?.hasWebhooks === true) this.events.push(...eventsOf(writes, { ...loaded, now: this.now }));
    this.isHalfDone = false;
    return result;
  }

  #count({ tenant, isRight }: { readonly tenant: string; readonly isRight: boolean }): void {
    const minute = minuteOf(this.now);
    const key = `${minute} ${tenant}`;
    const { wrong, right } = this.counts.get(key) ?? { wrong: 0, right: 0 };
    this.counts.set(key, { tenant, minute, wrong: wrong + (isRight ? 0 : 1), right: right + (isRight ? 1 : 0) });
  }

  daily(tenant: string): DailyCount {
    return this.days.get(tenant)?.daily ?? newDay(this.now);
  }
  putDaily(tenant: string, { daily, warned }: Pick<Writes, "daily" | "warned">): void {
    if (daily === undefined) return;
    this.days.put(tenant, { tenant, daily });
    if (warned !== undefined) this.events.push(spendEvent(tenant, daily.day, warned, this.now));
  }

  prefix(of: PrefixName): PrefixRecord {
    return this.prefixes.get(prefixKey(of))?.record ?? newPrefix;
  }
  loadPrefix(of: PrefixName, record: PrefixRecord): void {
    this.prefixes.load(prefixKey(of), { name: of, record });
  }
  putPrefix(of: PrefixName, { record, decisions }: PrefixChange): void {
    this.prefixes.put(prefixKey(of), { name: of, record });
    for (const decision of decisions) {
      this.news.push({ ...of, decision });
      if (isTrip(decision)) this.events.push(fraudEvent(of.tenant, of.prefix, decision));
    }
  }

  /** Counts the outcome of a verification that has ended in this very act. */
  mature(ended: Verification, ref: PrefixRef | undefined): void {
    if (ended.tally === "none" || ref === undefined) return;
    const of = ref.name();
    if (of === undefined) return;
    const change = mature(this.prefix(of), ended, this.now, ref.enforced);
    if (change !== undefined) this.putPrefix(of, change);
  }
}
