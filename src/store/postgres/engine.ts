/**
 * PostgreSQL as the store's database, for any number of instances. How a batch of acts locks, loads and writes is in
 * batches.ts.
 */
import type { Slot } from "../../otp/idempotency.ts";
import type { Message } from "../../otp/message.ts";
import { decisionsMax, newPrefix } from "../../otp/pumping-guard.ts";
import { oldestMinute, type Guesses } from "../../otp/spray.ts";
import type { PhoneView, Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import type { Deleted, Engine, MessageName } from "../engine.ts";
import type { EventStore } from "../events.ts";
import type { Registry } from "../registry.ts";
import { idBytes, idText } from "../rows/id.ts";
import { toMessage, toOutbox, type MessageRow, type OutboxRow } from "../rows/message.ts";
import { toDecision, toPrefix, type DecisionRow, type PrefixRow } from "../rows/prefix.ts";
import { toVerification, type VerificationRow } from "../rows/verification.ts";
import {
  outboxCountMax,
  type Outbox,
  type PhoneRef,
  type PrefixName,
  type PrefixView,
  type StoreWatchers,
} from "../store.ts";
import type { Found, Horizon } from "../sweep.ts";
import type { Act } from "../unit-of-work.ts";
import { Batches } from "./batches.ts";
import type { StoreClock } from "./clock.ts";
import type { Connections } from "./connections.ts";
import { createPostgresEvents } from "./events.ts";
import { loadPhones } from "./load.ts";
import { createPostgresRegistry } from "./registry.ts";
import { statements as sql } from "./statements.ts";
import { deleteForgettable } from "./sweep.ts";
import { PostgresUnitOfWork } from "./unit-of-work.ts";
import { nudgeChannel } from "./watch.ts";

export interface PostgresEngineParts {
  readonly connections: Connections;
  readonly clock: StoreClock;
  /** What this instance is known by to the others. */
  readonly ownName: string;
  readonly watch?: { close(): Promise<void> } | undefined;
  readonly watchers?: StoreWatchers;
}

/** An overload gives back hundreds of messages a second; who hears of one looks until nothing is left. */
const announceEveryMs = 100;
const pingSlot: Slot = { digest: Buffer.alloc(16), names: [] };

export class PostgresEngine implements Engine {
  readonly registry: Registry;
  readonly events: EventStore;
  readonly #connections: Connections;
  readonly #clock: StoreClock;
  readonly #batches: Batches;
  readonly #ownName: string;
  readonly #watch: PostgresEngineParts["watch"];
  #announcedMs = 0;
  #isClosed = false;

  constructor({ connections, clock, ownName, watch, watchers = {} }: PostgresEngineParts) {
    this.#connections = connections;
    this.#clock = clock;
    this.#ownName = ownName;
    this.#watch = watch;
    this.#batches = new Batches(connections, clock, watchers);
    this.registry = createPostgresRegistry(connections, clock);
    this.events = createPostgresEvents(connections, clock);
  }

  now(): Instant {
    return this.#clock.now();
  }

  perform<T>(act: Act<T>): Promise<T> {
    return this.#batches.run(act);
  }

  async readVerification(id: string): Promise<Verification | undefined> {
    const bytes = idBytes(id);
    if (bytes === undefined) return undefined;
    const [row] = await this.#connections.query<VerificationRow>(sql.verifications, [[bytes]]);
    return row === undefined ? undefined : toVerification(row);
  }

  async readVerifications(phoneIndexes: readonly Uint8Array[], max: number): Promise<Verification[]> {
    const found = await this.#connections.query<VerificationRow>(sql.verificationsOfPhone, [phoneIndexes, max]);
    return found.map(toVerification);
  }

  async readPhone(ref: PhoneRef): Promise<PhoneView> {
    const unit = new PostgresUnitOfWork();
    await loadPhones(this.#connections, this.#clock.now(), unit, [ref]);
    return unit.phone(ref);
  }

  async readPrefix({ tenant, prefix }: PrefixName): Promise<PrefixView | undefined> {
    const [row] = await this.#connections.query<PrefixRow>(sql.prefixes, [[tenant], [prefix]]);
    const found = await this.#connections.query<DecisionRow>(sql.prefixDecisions, [tenant, prefix, decisionsMax]);
    const decisions = found.map(toDecision);
    if (row === undefined && decisions.length === 0) return undefined;
    return { record: row === undefined ? newPrefix : toPrefix(row), decisions };
  }

  async readMessages(verificationId: string): Promise<Message[]> {
    const bytes = idBytes(verificationId);
    if (bytes === undefined) return [];
    const found = await this.#connections.query<MessageRow>(sql.messages, [[bytes]]);
    return found.map(toMessage).toSorted((a, b) => a.copy - b.copy);
  }

  async readGuesses(): Promise<ReadonlyMap<string, Guesses>> {
    const since = oldestMinute(this.#clock.now());
    const found = await this.#connections.query<Guesses & { tenant: string }>(sql.guessesOfAll, [since]);
    return new Map(found.map(({ tenant, wrong, right }) => [tenant, { wrong, right }]));
  }

  async readOutbox(): Promise<Outbox> {
    const [row] = await this.#connections.query<OutboxRow>(sql.outbox, [outboxCountMax]);
    return toOutbox(row, this.#clock.now());
  }

  async nextDue(): Promise<Instant | undefined> {
    const [row] = await this.#connections.query<{ due: number | null }>(sql.nextDue, []);
    return row?.due ?? undefined;
  }

  async dueMessages(max: number): Promise<MessageName[]> {
    const found = await this.#connections.query<Pick<MessageRow, "verification_id" | "copy">>(sql.dueMessages, [
      this.#clock.now(),
      max,
    ]);
    return found.map((row) => ({ verificationId: idText(row.verification_id), copy: row.copy }));
  }

  async lapsedVerifications(max: number): Promise<string[]> {
    const found = await this.#connections.query<{ id: Uint8Array }>(sql.lapsed, [this.#clock.now(), max]);
    return found.map(({ id }) => idText(id));
  }

  async readRecordNames(from: Uint8Array, max: number): Promise<Uint8Array[]> {
    const found = await this.#connections.query<{ slot: Uint8Array }>(sql.staleRecords, [from, max]);
    return found.map(({ slot }) => slot);
  }

  async hasEndpoints(): Promise<boolean> {
    return (await this.#connections.query(sql.anyEndpoint, [])).length > 0;
  }

  /**
   * Only what nobody has in hand is worth it: with every send, each commit would wait for the one lock that notifications
   * have in a server.
   */
  async announceMessages(): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#announcedMs < announceEveryMs) return;
    this.#announcedMs = now;
    // They look by themselves a second later.
    await this.#connections.query(sql.nudge, [nudgeChannel, this.#ownName]).catch(() => {});
  }

  deleteForgettable(horizon: Horizon, judge: (found: Found) => Found): Promise<Deleted> {
    return this.#connections.transact((transaction) => deleteForgettable(transaction, horizon, judge));
  }

  async ping(): Promise<void> {
    // A transaction that has locked takes an id, and so writes; a database that takes no writes refuses it.
    await this.perform({ slot: pingSlot, run: () => {} });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#batches.close();
    await this.#watch?.close();
    await this.#connections.close();
  }
}
