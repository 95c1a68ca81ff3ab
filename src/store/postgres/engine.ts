/**
 * PostgreSQL as the store's database, for any number of instances. How a batch of acts locks, loads and writes is in
 * batches.ts.
 */
import { bulkhead } from "cockatiel";
import type { Slot } from "../../otp/verification/idempotency.ts";
import type { Destination } from "../../otp/verification/destination.ts";
import type { PrefixRecord } from "../../otp/limits/pumping-guard.ts";
import type { PhoneView } from "../../otp/decisions/writes.ts";
import type { Instant } from "../../system.ts";
import type { Deleted, Engine, Found, Horizon } from "../engine.ts";
import { toDestination, type DestinationRow } from "../rows/tenant.ts";
import { toPrefix, type PrefixRow } from "../rows/prefix.ts";
import { viewPhone } from "../apply.ts";
import type { Statement, Steps, Value } from "../statement.ts";
import type { PhoneRef, PrefixName, StoreWatchers } from "../store.ts";
import type { Act } from "../unit-of-work.ts";
import { Batches } from "./batches.ts";
import type { StoreClock } from "./clock.ts";
import { readForEach } from "./combined.ts";
import type { Connections } from "./connections.ts";
import { loadPhones } from "./load.ts";
import type { LongReads } from "./long-reads.ts";
import { LookUps } from "./look-ups.ts";
import { finding, statements as sql } from "./statements.ts";
import { deleteForgettable } from "./sweep.ts";
import { runSteps } from "./steps.ts";
import { PostgresUnitOfWork } from "./unit-of-work.ts";
import { nudgeChannel } from "./watch.ts";

export interface PostgresEngineParts {
  readonly connections: Connections;
  readonly clock: StoreClock;
  /** What this instance is known by to the others. */
  readonly ownName: string;
  /** As in PostgresOptions. */
  readonly batches?: number | undefined;
  readonly watch?: { close(): Promise<void> } | undefined;
  readonly watchers?: StoreWatchers;
  readonly longReads: LongReads;
}

/** An overload gives back hundreds of messages a second; who hears of one looks until nothing is left. */
const announceEveryMs = 100;
/** Of acts in turn. Each has one of the connections that calls need, and holds it while it waits for a row that others write. */
const turnsMax = 2;
const pingSlot: Slot = { digest: Buffer.alloc(16), names: [] };

export class PostgresEngine implements Engine {
  readonly dueEvents = sql.dueEvents;
  readonly dueMessages = sql.dueMessages;
  readonly messagesOf = sql.messagesOf;
  readonly dueFallbacks = sql.dueFallbacks;
  readonly finding = finding;
  // OFFSET keeps it apart, so that its index is used: PostgreSQL would rather read all messages once.
  readonly messagesJoin =
    "LATERAL (SELECT * FROM messages AS its WHERE its.verification_id = v.id OFFSET 0) AS m ON true";
  readonly jsonArray = "json_build_array";
  readonly jsonArrayOf = "json_agg";
  // Whole numbers below 2⁵³ are exact as such. PostgreSQL adds up bigint in 128 bits, with an allocation for each sum.
  readonly sumOf = (column: string) => `sum(CAST(${column} AS double precision))`;
  readonly #connections: Connections;
  readonly #clock: StoreClock;
  readonly #batches: Batches;
  readonly #listedOrigins: LookUps;
  /** By the name of the statement that is recalled. */
  readonly #recalled = new Map<string, LookUps<never>>();
  readonly #ownName: string;
  readonly #watch: PostgresEngineParts["watch"];
  #announcedMs = 0;
  #isClosed = false;

  readonly #longReads: LongReads;
  readonly #turns = bulkhead(turnsMax, Number.POSITIVE_INFINITY);

  constructor({ connections, clock, ownName, watch, batches, longReads, watchers = {} }: PostgresEngineParts) {
    this.#longReads = longReads;
    this.#connections = connections;
    this.#listedOrigins = new LookUps(connections, sql.listedOrigins);
    this.#clock = clock;
    this.#ownName = ownName;
    this.#watch = watch;
    this.#batches = new Batches(connections, clock, ownName, watchers, { atOnce: batches });
  }

  readonly now = (): Instant => this.#clock.now();

  perform<T>(act: Act<T>): Promise<T> {
    return this.#batches.run(act);
  }

  transact<T>(steps: () => Steps<T>): Promise<T> {
    return this.#connections.transact((transaction) => runSteps(transaction, steps()));
  }

  inTurn<T>(act: () => Promise<T>): Promise<T> {
    return this.#turns.execute(act);
  }

  write<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#connections.query(statement, values);
  }

  query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#connections.query(statement, values);
  }

  longRead<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#longReads.read(statement, values);
  }

  /** Nothing tells that nobody has written, so nothing is remembered; but those who ask together share a read. */
  async recall<T>(
    statement: Statement,
    value: string | undefined,
    make: (rows: readonly never[]) => T | undefined,
  ): Promise<T | undefined> {
    let together = this.#recalled.get(statement.name);
    if (together === undefined) {
      together = new LookUps(this.#connections, readForEach(statement), statement);
      this.#recalled.set(statement.name, together);
    }
    return make(await together.read(...(value === undefined ? [] : [value])));
  }

  async readPrefix({ tenant, prefix }: PrefixName): Promise<PrefixRecord | undefined> {
    const [row] = await this.#connections.query<PrefixRow>(sql.prefix, [tenant, prefix]);
    return row && toPrefix(row);
  }

  async readPhone(ref: PhoneRef): Promise<PhoneView> {
    const unit = new PostgresUnitOfWork();
    await loadPhones(this.#connections, this.#clock.now(), unit, [ref]);
    return { ...viewPhone(unit, ref) };
  }

  async listsOrigin(origin: string, now: Instant): Promise<boolean> {
    return (await this.#listedOrigins.read(origin, now)).length > 0;
  }

  async findDestination(tenant: string, e164: string): Promise<Destination | undefined> {
    const [row] = await this.#connections.query<DestinationRow>(sql.longestDestinations, [[tenant], [e164]]);
    return row === undefined ? undefined : toDestination(row);
  }

  /**
   * Called for messages that are given back, and not for every send: each commit would wait for the one lock that a server
   * has for notifications.
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
    // The transaction locks, so it takes an id, and so it writes.
    await this.perform({ slot: pingSlot, run: () => {} });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#batches.close();
    await Promise.all([this.#watch?.close(), this.#longReads.close()]);
    await this.#connections.close();
  }
}
