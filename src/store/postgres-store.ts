/**
 * The store's acts on PostgreSQL, for any number of instances on one database. What an act does within a batch is the same
 * as on SQLite (sqlite-store.ts); how a batch locks, loads and writes is in postgres-batches.ts.
 */
import type { SendView, UpdateView } from "../otp/decisions.ts";
import type { StoredAnswer } from "../otp/idempotency.ts";
import { claim, isInHand, unclaim, type Message } from "../otp/message.ts";
import { decisionsMax, newPrefix, type PrefixChange, type PrefixRecord } from "../otp/pumping-guard.ts";
import type { SettleView } from "../otp/settlement.ts";
import { noGuesses, oldestMinute, type Guesses } from "../otp/spray.ts";
import { nothing, stateAt, type Decided, type PhoneView, type Verification } from "../otp/verification.ts";
import type { Instant } from "../system.ts";
import { Batches, columns, prefixOf, type StoreClock } from "./postgres-batches.ts";
import type { Connections } from "./postgres-connections.ts";
import { createPostgresRegistry } from "./postgres-registry.ts";
import { statements as sql } from "./postgres-statements.ts";
import { createPostgresSweep } from "./postgres-sweep.ts";
import { toDecision, toPrefix, type DecisionRow, type PrefixRow } from "./prefix-rows.ts";
import type { Registry } from "./registry.ts";
import * as rows from "./rows.ts";
import type {
  Job,
  OpenScope,
  PhoneRef,
  PrefixName,
  PrefixNews,
  PrefixView,
  Store,
  Swept,
  UpdateScope,
} from "./store.ts";

export class PostgresStore implements Store {
  readonly registry: Registry;
  readonly #connections: Connections;
  readonly #clock: StoreClock;
  readonly #batches: Batches;
  readonly #sweep: ReturnType<typeof createPostgresSweep>;
  #isClosed = false;

  constructor(connections: Connections, clock: StoreClock, onPrefix: (news: PrefixNews) => void = () => {}) {
    this.#connections = connections;
    this.#clock = clock;
    this.#batches = new Batches(connections, clock, onPrefix);
    this.#sweep = createPostgresSweep(connections, this.#batches);
    this.registry = createPostgresRegistry(connections, clock);
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
      run: (work) => {
        const record = work.record(scope.slot);
        const recorded = record === undefined ? undefined : work.verifications.get(record.verificationId);
        const phone = scope.phone === undefined ? undefined : work.phone(scope.phone);
        const guesses = phone === undefined ? undefined : (work.guesses.get(scope.tenant) ?? noGuesses);
        const name = scope.phone?.prefix?.name();
        const prefix = name === undefined ? undefined : work.prefix(name);
        const { writes, result } = decide({ now: work.now, record, recorded, phone, guesses, prefix });
        work.apply(writes, scope.phone, undefined);
        return result;
      },
    });
  }

  updateVerification<R>(scope: UpdateScope, decide: (view: UpdateView) => Decided<R>): Promise<R> {
    return this.#batches.run({
      slot: scope.slot,
      verificationId: scope.id,
      phoneOf: (work) => {
        const found = work.verifications.get(scope.id);
        return found?.tenant === scope.tenant ? scope.phoneOf(found) : undefined;
      },
      prefixOf: (work) => prefixOf(work.verifications.get(scope.id), scope.phoneOf),
      run: (work) => {
        const found = work.verifications.get(scope.id);
        const verification = found?.tenant === scope.tenant ? found : undefined;
        const ref = verification === undefined ? undefined : scope.phoneOf(verification);
        const phone = ref === undefined ? undefined : work.phone(ref);
        const isCounted = scope.withPrefix === true && verification !== undefined && verification.tally !== "none";
        const name = isCounted ? ref?.prefix?.name() : undefined;
        const prefix = name === undefined ? undefined : work.prefix(name);
        const record = work.record(scope.slot);
        const { writes, result } = decide({ now: work.now, record, verification, phone, prefix });
        work.apply(writes, ref, verification);
        return result;
      },
    });
  }

  async readVerification(tenant: string, id: string): Promise<Verification | undefined> {
    const bytes = rows.idBytes(id);
    if (bytes === undefined) return undefined;
    const [row] = await this.#connections.query<rows.VerificationRow>(sql.verifications, [[bytes]]);
    return row?.tenant === tenant ? rows.toVerification(row) : undefined;
  }

  readPhone(phone: PhoneRef): Promise<PhoneView> {
    return this.#batches.run({ phoneOf: () => phone, run: (work) => work.phone(phone) });
  }

  async listVerifications(indexes: readonly Uint8Array[], max: number): Promise<Verification[]> {
    const found = await this.#connections.query<rows.VerificationRow>(sql.verificationsOfPhone, [indexes, max]);
    return found.map(rows.toVerification);
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
    const bytes = rows.idBytes(id);
    if (bytes === undefined) return [];
    const found = await this.#connections.query<rows.MessageRow>(sql.messages, [[bytes]]);
    return found.map(rows.toMessage).toSorted((a, b) => a.copy - b.copy);
  }

  noteAnswer(slot: Uint8Array, answer: StoredAnswer | null): Promise<void> {
    return this.#batches.run({
      slot,
      run: (work) => {
        const record = work.record(slot);
        if (answer === null) work.removeRecord(slot);
        else if (record !== undefined) work.putRecord({ ...record, answer });
      },
    });
  }

  async claimMessages(
    max: number,
    phoneOf: (verification: Verification) => PhoneRef,
    decideLate: (view: SettleView) => Decided<unknown>,
  ): Promise<Job[]> {
    const isLate = (message: Message, verification: Verification, now: Instant) =>
      stateAt(verification, now) !== "PENDING" || now >= message.deadlineMs;
    const { jobs, late } = await this.#connections.transact(async (transaction) => {
      const now = this.#clock.now();
      const found = await transaction.query<rows.VerificationRow>(sql.claimVerifications, [now, max]);
      const verifications = new Map(found.map((row) => [rows.idText(row.id), rows.toVerification(row)]));
      // Read after the lock: until then another worker may have had them in hand.
      const loaded =
        found.length === 0 ? [] : await transaction.query<rows.MessageRow>(sql.messages, [found.map((row) => row.id)]);
      const due = loaded
        .map(rows.toMessage)
        .filter(({ dueMs }) => dueMs !== null && dueMs <= now)
        .toSorted((a, b) => (a.dueMs ?? 0) - (b.dueMs ?? 0))
        .slice(0, max)
        .flatMap((message) => {
          const verification = verifications.get(message.verificationId);
          return verification === undefined ? [] : [{ message, verification, now }];
        });
      const claimed = due
        .filter(({ message, verification }) => !isLate(message, verification, now))
        .map((job) => ({ ...job, message: claim(job.message, now) }));
      if (claimed.length > 0)
        transaction.send(sql.putMessages, columns(claimed.map(({ message }) => rows.messageValues(message))));
      return { jobs: claimed, late: due.filter(({ message, verification }) => isLate(message, verification, now)) };
    });
    await Promise.all(
      late.map(({ message: { verificationId, copy } }) =>
        this.settleMessage({ verificationId, copy }, phoneOf, (view) => {
          const isStill = view.message.dueMs !== null && view.message.dueMs <= view.now;
          // Another worker may have come first.
          return isStill && isLate(view.message, view.verification, view.now) ? decideLate(view) : nothing(undefined);
        }),
      ),
    );
    return jobs;
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
  }

  settleMessage<R>(
    name: { readonly verificationId: string; readonly copy: number },
    phoneOf: (verification: Verification) => PhoneRef,
    decide: (view: SettleView) => Decided<R>,
  ): Promise<R | undefined> {
    return this.#batches.run({
      verificationId: name.verificationId,
      withMessages: true,
      phoneOf: (work) => {
        const verification = work.verifications.get(name.verificationId);
        return verification === undefined ? undefined : phoneOf(verification);
      },
      prefixOf: (work) => prefixOf(work.verifications.get(name.verificationId), phoneOf),
      run: (work) => {
        const message = work.message(name.verificationId, name.copy);
        const verification = work.verifications.get(name.verificationId);
        if (message === undefined || verification === undefined) return undefined;
        const ref = phoneOf(verification);
        const { writes, result } = decide({ now: work.now, message, verification, phone: work.phone(ref) });
        work.apply(writes, ref, verification);
        return result;
      },
    });
  }

  async nextDue(): Promise<Instant | undefined> {
    const [row] = await this.#connections.query<{ due: number | null }>(sql.nextDue, []);
    return row?.due ?? undefined;
  }

  sweep(max: number, retentionMs: number, phoneOf?: (verification: Verification) => PhoneRef): Promise<Swept> {
    return this.#sweep(this.#clock.now(), max, retentionMs, phoneOf);
  }

  async ping(): Promise<void> {
    // A transaction that has locked takes an id, and so writes; a database that takes no writes refuses it.
    await this.#batches.run({ slot: pingSlot, run: () => {} });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#batches.close();
    await this.#connections.close();
  }
}

const pingSlot = Buffer.alloc(16);
