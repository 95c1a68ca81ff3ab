/**
 * The store's acts on PostgreSQL, for any number of instances on one database. What an act does within a batch is the same
 * as on SQLite (sqlite-store.ts); how a batch locks, loads and writes is in postgres-batches.ts.
 */
import { dailyOf, hasPlace, hasPlaceToGiveBack, takePlace, type Place } from "../../otp/daily-cap.ts";
import type { CallView, SendView, UpdateView } from "../../otp/decisions.ts";
import type { Slot, SlotOf, StoredAnswer } from "../../otp/idempotency.ts";
import { claim, giveUp, isInHand, unclaim, type Message } from "../../otp/message.ts";
import { decisionsMax, newPrefix, type PrefixChange, type PrefixRecord } from "../../otp/pumping-guard.ts";
import type { SettleView } from "../../otp/settlement.ts";
import { noGuesses, oldestMinute, type Guesses } from "../../otp/spray.ts";
import { stateAt, type Decided, type PhoneView, type Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import type { EventStore } from "../events.ts";
import { Batches, numberKey, prefixOf, type ListedNumber, type StoreClock } from "./batches.ts";
import type { Connections } from "./connections.ts";
import { createPostgresEvents } from "./events.ts";
import { createPostgresRegistry } from "./registry.ts";
import { statements as sql } from "./statements.ts";
import { keySlots } from "./slots.ts";
import { createPostgresSweep } from "./sweep.ts";
import { nudgeChannel } from "./watch.ts";
import type { Work } from "./unit-of-work.ts";
import { toDecision, toPrefix, type DecisionRow, type PrefixRow } from "../rows/prefix.ts";
import type { Registry } from "../registry.ts";
import { idBytes, idText } from "../rows/id.ts";
import { toVerification, type VerificationRow } from "../rows/verification.ts";
import { toMessage, toOutbox, type MessageRow, type OutboxRow } from "../rows/message.ts";
import {
  outboxCountMax,
  type Job,
  type OpenScope,
  type Outbox,
  type PhoneOf,
  type PhoneRef,
  type PrefixName,
  type PrefixView,
  type Store,
  type StoreWatchers,
  type Swept,
  type UpdateScope,
} from "../store.ts";

export interface PostgresStoreParts {
  readonly connections: Connections;
  readonly clock: StoreClock;
  /** What this instance is known by to the others. */
  readonly ownName: string;
  readonly watch?: { close(): Promise<void> } | undefined;
  readonly watchers?: StoreWatchers;
}

export class PostgresStore implements Store {
  readonly registry: Registry;
  readonly events: EventStore;
  readonly #connections: Connections;
  readonly #clock: StoreClock;
  readonly #batches: Batches;
  readonly #sweep: ReturnType<typeof createPostgresSweep>;
  readonly #ownName: string;
  readonly #watch: PostgresStoreParts["watch"];
  #nudgedMs = 0;
  #isClosed = false;

  constructor({ connections, clock, ownName, watch, watchers = {} }: PostgresStoreParts) {
    this.#connections = connections;
    this.#clock = clock;
    this.#ownName = ownName;
    this.#watch = watch;
    this.#batches = new Batches(connections, clock, watchers);
    this.#sweep = createPostgresSweep(connections, this.#batches);
    this.registry = createPostgresRegistry(connections, clock);
    this.events = createPostgresEvents(connections, clock);
  }

  now(): Instant {
    return this.#clock.now();
  }

  openVerification<R>(scope: OpenScope, decide: (view: SendView) => Decided<R>): Promise<R> {
    return this.#batches.run({
      slot: scope.slot,
      tenant: scope.phone === undefined ? undefined : scope.tenant,
      phoneOf: () => scope.phone,
      prefixOf: () => scope.phone?.prefix?.name(),
      numberOf: () => listed(scope.tenant, scope.number),
      cappedTenantOf: () => (scope.isCapped === true ? scope.tenant : undefined),
      run: (work) => {
        const view = viewOf(work, scope, scope.phone, scope.phone?.prefix?.name(), scope.number);
        const recorded = view.record && work.verifications.get(view.record.verificationId);
        const guesses = view.phone && (work.guesses.get(scope.tenant) ?? noGuesses);
        return work.apply(scope.tenant, scope.phone, {}, decide({ ...view, recorded, guesses }));
      },
    });
  }

  updateVerification<R>(scope: UpdateScope, decide: (view: UpdateView) => Decided<R>): Promise<R> {
    const find = (work: Work) => {
      const found = work.verifications.get(scope.id);
      return found?.tenant === scope.tenant ? found : undefined;
    };
    const numberOf = (found: Verification | undefined) => found && scope.numberOf?.(found);
    return this.#batches.run({
      slot: scope.slot,
      verificationId: scope.id,
      phoneOf: (work) => refOf(find(work), scope.phoneOf),
      prefixOf: (work) => prefixOf(work.verifications.get(scope.id), scope.phoneOf),
      numberOf: (work) => listed(scope.tenant, numberOf(find(work))),
      cappedTenantOf: () => (scope.isCapped === true ? scope.tenant : undefined),
      run: (work) => {
        const verification = find(work);
        const ref = refOf(verification, scope.phoneOf);
        const isCounted = scope.withPrefix === true && verification?.tally !== "none";
        const name = isCounted ? ref?.prefix?.name() : undefined;
        const view = viewOf(work, scope, ref, name, numberOf(verification));
        return work.apply(scope.tenant, ref, { verification }, decide({ ...view, verification }));
      },
    });
  }

  async readVerification(tenant: string, id: string): Promise<Verification | undefined> {
    const bytes = idBytes(id);
    if (bytes === undefined) return undefined;
    const [row] = await this.#connections.query<VerificationRow>(sql.verifications, [[bytes]]);
    return row?.tenant === tenant ? toVerification(row) : undefined;
  }

  readPhone(phone: PhoneRef): Promise<PhoneView> {
    return this.#batches.run({ phoneOf: () => phone, run: (work) => work.phone(phone) });
  }

  async listVerifications(indexes: readonly Uint8Array[], max: number): Promise<Verification[]> {
    const found = await this.#connections.query<VerificationRow>(sql.verificationsOfPhone, [indexes, max]);
    return found.map(toVerification);
  }

  resetPhone(phone: PhoneRef): Promise<void> {
    return this.#batches.run({
      phoneOf: () => phone,
      run: (work) => work.forgetPhone(phone),
    });
  }

  async readGuesses(): Promise<ReadonlyMap<string, Guesses>> {
    const found = await this.#connections.query<Guesses & { tenant: string }>(sql.guessesOfAll, [
      oldestMinute(this.#clock.now()),
    ]);
    return new Map(found.map(({ tenant, wrong, right }) => [tenant, { wrong, right }]));
  }

  async readPrefix({ tenant, prefix }: PrefixName): Promise<PrefixView | undefined> {
    const [row] = await this.#connections.query<PrefixRow>(sql.prefixes, [[tenant], [prefix]]);
    const found = await this.#connections.query<DecisionRow>(sql.prefixDecisions, [tenant, prefix, decisionsMax]);
    const decisions = found.map(toDecision);
    if (row === undefined && decisions.length === 0) return undefined;
    return { record: row === undefined ? newPrefix : toPrefix(row), decisions };
  }

  changePrefix(
    name: PrefixName,
    change: (record: PrefixRecord, now: Instant) => PrefixChange | undefined,
  ): Promise<boolean> {
    return this.#batches.run({
      prefixOf: () => name,
      run: (work) => {
        const changed = change(work.prefix(name), work.now);
        if (changed !== undefined) work.putPrefix(name, changed);
        return changed !== undefined;
      },
    });
  }

  async readMessages(id: string): Promise<Message[]> {
    const bytes = idBytes(id);
    if (bytes === undefined) return [];
    const found = await this.#connections.query<MessageRow>(sql.messages, [[bytes]]);
    return found.map(toMessage).toSorted((a, b) => a.copy - b.copy);
  }

  noteAnswer(slot: Slot, verificationId: string, answer: StoredAnswer | null): Promise<void> {
    return this.#batches.run({
      slot,
      run: (work) => {
        const record = work.record(slot);
        if (record?.verificationId !== verificationId) return;
        if (answer === null) work.removeRecord(record.slot);
        else work.putRecord({ ...record, answer });
      },
    });
  }

  async claimMessages(
    max: number,
    phoneOf: PhoneOf,
    decideLate: (view: SettleView) => Decided<unknown>,
    dailyMaxOf: (tenant: string) => number | undefined,
  ): Promise<Job[]> {
    const jobs: Job[] = [];
    // Other workers look at the same messages at the same moment, and one of them is first with each.
    for (let looks = 0; looks < claimLooksMax && jobs.length < max; looks++) {
      const due = await this.#due(max - jobs.length);
      if (due.length === 0) break;
      const claimed = await Promise.all(due.map((name) => this.#claim(name, phoneOf, decideLate, dailyMaxOf)));
      jobs.push(...claimed.filter((job) => job !== undefined));
    }
    return jobs;
  }

  /** Claims one message, or ends it if it is late or has no place; undefined unless it is claimed. */
  #claim(
    { verificationId, copy }: { readonly verificationId: string; readonly copy: number },
    phoneOf: PhoneOf,
    decideLate: (view: SettleView) => Decided<unknown>,
    dailyMaxOf: (tenant: string) => number | undefined,
  ): Promise<Job | undefined> {
    return this.#batches.run<Job | undefined>({
      ...ofMessages(verificationId, phoneOf),
      cappedTenantOf: (work) => work.verifications.get(verificationId)?.tenant,
      run: (work) => {
        const { now } = work;
        const message = work.message(verificationId, copy);
        const verification = work.verifications.get(verificationId);
        // Another worker may have had it in hand while this one waited for it.
        if (message === undefined || message.dueMs === null || message.dueMs > now) return undefined;
        if (verification === undefined) {
          work.putMessage(giveUp(message));
          return undefined;
        }
        let late = message;
        if (stateAt(verification, now) === "PENDING" && now < message.deadlineMs) {
          const cap = dailyMaxOf(verification.tenant);
          const place = placeFor(work, message, verification.tenant, cap);
          work.putDaily(verification.tenant, dailyOf(place, cap));
          if (place.taken) {
            const claimed = { ...claim(message, now), placeDay: place.day };
            work.putMessage(claimed);
            return { message: claimed, verification, now, share: place.share };
          }
          late = { ...message, detail: atDailyCap };
        }
        settle(work, late, verification, phoneOf, decideLate);
        return undefined;
      },
    });
  }

  /** Messages that are due and in nobody's hand just now, the one that has been due for longest first. */
  async #due(max: number): Promise<{ verificationId: string; copy: number }[]> {
    const found = await this.#connections.query<{ verification_id: Uint8Array; copy: number }>(sql.dueMessages, [
      this.#clock.now(),
      max,
    ]);
    return found.map((row) => ({ verificationId: idText(row.verification_id), copy: row.copy }));
  }

  async releaseMessages(jobs: readonly Job[]): Promise<void> {
    await Promise.all(
      jobs.map(({ message }) =>
        this.#batches.run({
          verificationId: message.verificationId,
          withMessages: true,
          run: (work) => {
            const stored = work.message(message.verificationId, message.copy);
            // Its lease may have ended, and another worker may have sent it.
            if (stored !== undefined && isInHand(message, stored)) work.putMessage(unclaim(stored, work.now));
          },
        }),
      ),
    );
    await this.#nudge();
  }

  /**
   * Tells the other instances that there are messages for anybody to take. Only what nobody has in hand is worth it: with
   * every send, each commit would wait for the one lock that notifications have in a server.
   */
  async #nudge(): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#nudgedMs < nudgeEveryMs) return;
    this.#nudgedMs = now;
    // They look by themselves a second later.
    await this.#connections.query(sql.nudge, [nudgeChannel, this.#ownName]).catch(() => {});
  }

  settleMessage<R>(
    name: { readonly verificationId: string; readonly copy: number },
    phoneOf: PhoneOf,
    decide: (view: SettleView) => Decided<R>,
  ): Promise<R | undefined> {
    return this.#batches.run({
      ...ofMessages(name.verificationId, phoneOf),
      cappedTenantOf: (work) => {
        // Its place may come back.
        const placeDay = work.message(name.verificationId, name.copy)?.placeDay ?? null;
        return placeDay === null ? undefined : work.verifications.get(name.verificationId)?.tenant;
      },
      run: (work) => {
        const message = work.message(name.verificationId, name.copy);
        const verification = work.verifications.get(name.verificationId);
        if (message === undefined || verification === undefined) return undefined;
        return settle(work, message, verification, phoneOf, decide);
      },
    });
  }

  async nextDue(): Promise<Instant | undefined> {
    const [row] = await this.#connections.query<{ due: number | null }>(sql.nextDue, []);
    return row?.due ?? undefined;
  }

  async readOutbox(): Promise<Outbox> {
    const [row] = await this.#connections.query<OutboxRow>(sql.outbox, [outboxCountMax]);
    return toOutbox(row, this.#clock.now());
  }

  sweep(max: number, retentionMs: number, phoneOf?: PhoneOf): Promise<Swept> {
    return this.#sweep(this.#clock.now(), max, retentionMs, phoneOf);
  }

  keySlots(from: Uint8Array, max: number, slotOf: SlotOf): Promise<Uint8Array | undefined> {
    return keySlots({ connections: this.#connections, batches: this.#batches }, from, max, slotOf);
  }

  async ping(): Promise<void> {
    // A transaction that has locked takes an id, and so writes; a database that takes no writes refuses it.
    await this.#batches.run({ slot: pingSlot, run: () => {} });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#batches.close();
    await this.#watch?.close();
    await this.#connections.close();
  }
}

const pingSlot: Slot = { digest: Buffer.alloc(16), names: [] };

/** An overload gives back hundreds of messages a second; who is nudged looks until nothing is left. */
const nudgeEveryMs = 100;
/** Looks at the outbox for one claim. */
const claimLooksMax = 32;
const atDailyCap = "the daily cap on messages was reached";

/** The place under the daily cap for a message's next call: the one it has, or a new one. */
function placeFor(work: Work, message: Message, tenant: string, cap: number | undefined): Place {
  if (hasPlace(message, work.now)) return { taken: true, day: message.placeDay };
  return takePlace(cap === undefined ? undefined : work.daily(tenant), cap, work.now);
}

function refOf(verification: Verification | undefined, phoneOf: PhoneOf): PhoneRef | undefined {
  return verification && phoneOf(verification);
}

/** What an act on messages of a verification locks and loads. */
function ofMessages(verificationId: string, phoneOf: PhoneOf) {
  const find = (work: Work) => work.verifications.get(verificationId);
  return {
    verificationId,
    withMessages: true,
    phoneOf: (work: Work) => refOf(find(work), phoneOf),
    prefixOf: (work: Work) => prefixOf(find(work), phoneOf),
  };
}

/** Decides what has become of a message. */
function settle<R>(
  work: Work,
  message: Message,
  verification: Verification,
  phoneOf: PhoneOf,
  decide: (view: SettleView) => Decided<R>,
): R {
  const { now } = work;
  const ref = phoneOf(verification);
  const daily = hasPlaceToGiveBack(message, now) ? work.daily(verification.tenant) : undefined;
  const decided = decide({ now, message, verification, phone: work.phone(ref), daily });
  return work.apply(verification.tenant, ref, { verification, message }, decided);
}

/** What the decision of any call sees, of what its scope asks for. */
function viewOf(
  work: Work,
  { tenant, slot, isCapped }: Pick<OpenScope, "tenant" | "slot" | "isCapped">,
  ref: PhoneRef | undefined,
  prefix: PrefixName | undefined,
  number: string | undefined,
): CallView {
  return {
    now: work.now,
    record: work.record(slot),
    phone: ref && work.phone(ref),
    prefix: prefix && work.prefix(prefix),
    verdict: number === undefined ? undefined : work.verdicts.get(numberKey({ tenant, number })),
    daily: isCapped === true ? work.daily(tenant) : undefined,
  };
}

function listed(tenant: string, number: string | undefined): ListedNumber | undefined {
  return number === undefined ? undefined : { tenant, number };
}
