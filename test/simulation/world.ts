/**
 * The simulated world: the real rules, service, worker, upkeep and SQLite store on a machine without time of its own,
 * behind a store with faults and before providers with moods. All chance comes from one seed.
 */
import { ofOneMind } from "../support/service/tenants.ts";
import Sqlite, { type Database } from "better-sqlite3";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProviderCall } from "../../src/delivery/dispatcher.ts";
import type { OutgoingMessage } from "../../src/delivery/provider.ts";
import { createWorker } from "../../src/delivery/worker.ts";
import { channels } from "../../src/otp/channel.ts";
import type { FallbackPlan } from "../../src/otp/message/fallback.ts";
import { slotsUnder } from "../../src/otp/verification/idempotency.ts";
import { createKeyRing, type KeyRing } from "../../src/otp/keys/key-ring.ts";
import type { SpendWarnings } from "../../src/otp/decisions/spending.ts";
import type { Policy } from "../../src/otp/verification/policy.ts";
import { phoneRefs } from "../../src/service/phone-refs.ts";
import { createVerifications, type Verifications } from "../../src/service/verifications.ts";
import { migrate } from "../../src/store/sqlite/migrate.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { createUpkeep } from "../../src/store/upkeep.ts";
import { createSystem, type System } from "../../src/system.ts";
import { Chance } from "./chance.ts";
import { createFaultyStore, type Faults, type FaultyStore } from "./faulty-store.ts";
import { Machine, turn } from "./machine.ts";
import { createScriptedProvider, type ScriptedProvider } from "./scripted-provider.ts";
import { Invariants } from "./invariants.ts";
import { hold } from "./violation.ts";

/** One life of the service's process, from its start to its crash. */
export interface Life {
  readonly store: FaultyStore;
  readonly system: System;
  readonly verifications: Verifications;
  /** Resolves when the file is let go of. */
  end(): Promise<void>;
}

/** Memory where the machine offers it: what a lost power supply would do is not tested here. */
const folderOfFolders = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

const hour = 3_600_000;
/** The database's note of the clock is older than the last act by this much at most. */
const clockNoteMs = 5_000;
/** Acts of the store that write nothing, the clock's note neither. A claim that finds nothing due is one too. */
const reading = /^(read|list|next)/;
const isWritten = (act: string, result: unknown) =>
  !reading.test(act) && !(Array.isArray(result) && result.length === 0);
const policies = {
  limits: [
    [
      { burst: 5, intervalMs: 600_000 },
      { burst: 6, intervalMs: 4 * hour },
    ],
    [{ burst: 3, intervalMs: 60_000 }],
    [{ burst: 1000, intervalMs: 1_000 }],
  ],
  gapsMs: [[30_000, 60_000], [1_000], [30_000, 60_000, 120_000, 120_000, 120_000]],
};

/** Draws what an operator might have configured. */
export function drawPolicy(chance: Chance): Policy {
  return {
    codeLength: chance.pick([6, 6, 6, 7]),
    codeLengthMax: chance.pick([8, 8, 10]),
    guessPolicy: chance.happens(0.1) ? "strict" : "lengthen",
    ttlMs: chance.pick([180_000, 300_000, 600_000, 600_000]),
    attemptsMax: chance.pick([1, 3, 5, 5, 5, 10]),
    resendGapsMs: chance.pick(policies.gapsMs),
    phoneLimits: chance.pick(policies.limits),
    allowedCountries: undefined,
    fraudGuard: chance.pick(["observe", "enforce"]),
    dailyMessagesMax: chance.pick([0, 12, 30, 100]) || undefined,
    retentionMs: 24 * hour,
  };
}

const fallbacks: readonly FallbackPlan[] = [
  // None.
  { channels: [], afterMs: 15_000 },
  { channels: ["sms", "voice"], afterMs: 15_000 },
  { channels: ["sms", "whatsapp", "voice"], afterMs: 15_000 },
  { channels: ["sms", "voice", "whatsapp"], afterMs: 60_000 },
];

export class World {
  readonly machine = new Machine();
  readonly faults: Faults = { refused: 0, unheard: 0 };
  readonly providers: readonly ScriptedProvider[];
  readonly sendWaitMs: number;
  /** The operator's order of channels; they share the providers. */
  readonly fallback: FallbackPlan | undefined;
  readonly invariants: Invariants;
  /** Beside the service, as a second process would read. */
  readonly db: Database;
  policy: Policy;
  masterKeys: Uint8Array[];
  keys: KeyRing;
  life!: Life;
  /** Crashes, long pauses, faults of the store and leaps of the clock: what may have a message sent once more. */
  disturbances = 0;
  crashes = 0;
  /** Verifications of numbers that an entry allowed when they were opened: the guard leaves them alone. */
  readonly exempt = new Set<string>();
  readonly faultNames: string[] = [];
  readonly jumps: number[] = [];
  readonly #folder = mkdtempSync(join(folderOfFolders, "otpd-simulation-"));
  readonly #path = join(this.#folder, "otp.db");
  readonly #randomness: Chance;
  readonly #storeChance: Chance;
  /** When an act was last durable. What was only looked at since then, nobody can hold the service to. */
  #lastActed: { readonly now: number; readonly monotonicMs: number } | undefined;
  readonly #trace = createHash("sha256");

  constructor(
    seed: number,
    options: { policy?: Partial<Policy>; providers?: number; sendWaitMs?: number; fallback?: FallbackPlan } = {},
  ) {
    const chance = new Chance(seed * 4 + 1);
    this.#randomness = new Chance(seed * 4 + 2);
    this.#storeChance = new Chance(seed * 4 + 3);
    this.policy = { ...drawPolicy(chance), ...options.policy };
    this.masterKeys = [chance.bytes(32)];
    this.keys = createKeyRing(this.masterKeys);
    this.fallback = options.fallback ?? new Chance(seed * 4 + 2000).pick(fallbacks);
    this.sendWaitMs = options.sendWaitMs ?? chance.pick([0, 2_000, 2_000]);
    const events = {
      onCall: (sms: OutgoingMessage, provider: string) => this.invariants.onProviderCall(sms, provider),
      after: (ms: number, act: () => void) => this.machine.after(ms, act),
    };
    const names = ["first", "second"].slice(0, options.providers ?? chance.pick([1, 1, 2]));
    this.providers = names.map((name, i) => createScriptedProvider(name, new Chance(seed * 4 + 1000 + i), events));
    this.db = new Sqlite(this.#path);
    this.db.pragma("journal_mode = WAL");
    migrate(this.db, migrations);
    addBreakableCommits(this.db);
    this.invariants = new Invariants(this);
  }

  /** Notes an event in the trace, from which two runs of one seed can be compared. */
  note(...event: readonly unknown[]): void {
    const line = JSON.stringify([this.machine.monotonicMs(), ...event]);
    this.#trace.update(`${line}\n`);
    if (process.env["OTPD_TRACE"] !== undefined) console.log(line);
  }

  traceHash(): string {
    return this.#trace.copy().digest("hex");
  }

  now(): number {
    return this.life.system.now();
  }

  /** Starts the service's process. */
  async boot(): Promise<void> {
    let isAlive = true;
    const { machine, policy, keys } = this;
    const real = createSystem((jumpMs) => void this.jumps.push(jumpMs), machine);
    const system: System = {
      ...real,
      after: (ms, act) => (isAlive ? machine.after(ms, act) : () => {}),
      randomBytes: (count) => this.#randomness.bytes(count),
    };
    const actedBefore = this.#lastActed;
    const kept = await openSqlite({ path: this.#path, system, exclusive: true });
    await kept.registry.admitMasterKeys(keys.all);
    const store = createFaultyStore(kept, this.#storeChance, this.faults, (act, result) => {
      const now = system.now();
      if (isWritten(act, result)) this.#lastActed = { now, monotonicMs: machine.monotonicMs() };
      this.invariants.onDone(act, result, now);
    });
    const onFault = (error: unknown) => void this.faultNames.push(error instanceof Error ? error.name : "?");
    const onCall = ({ provider, outcome }: ProviderCall) => this.note("call", provider, outcome.kind);
    const { providers } = this;
    const tenantOf = ofOneMind(policy);
    const phoneOf = phoneRefs(keys, tenantOf);
    const common = { store, system, keys, tenantOf };
    const onSpendWarnings = (_tenant: string, { reached = [] }: SpendWarnings) => {
      for (const { share } of reached) this.invariants.bill.warned(share, system.now());
    };
    const refreshTenants = async () => {};
    // Few places, so that a crowd has to wait for them.
    const worker = createWorker({
      ...common,
      callsMax: 64,
      providersOf: () => providers,
      channelsOn: channels,
      phoneOf,
      refreshTenants,
      onCall,
      onSpendWarnings,
      onFault,
    });
    const upkeep = createUpkeep({ store, system, phoneOf, slotOf: slotsUnder(keys) }, policy.retentionMs, onFault);
    this.life = {
      store,
      system,
      verifications: createVerifications({
        ...common,
        deliver: worker.deliver,
        sendWaitMs: this.sendWaitMs,
        channelsOn: channels,
        fallbackOrder: this.fallback,
        issuer: "otpd",
        onSpendWarnings,
      }),
      end: async () => {
        isAlive = false;
        store.cut();
        // Acts already handed to the database are committed, and their answers never arrive.
        await kept.close();
      },
    };
    if (actedBefore !== undefined) {
      const goneMs = machine.monotonicMs() - actedBefore.monotonicMs;
      const lostMs = Math.max(0, actedBefore.now + goneMs - system.now());
      hold(lostMs <= goneMs + clockNoteMs, "I3", `the clock lost ${lostMs} ms in a crash`);
      this.invariants.budget.lost(lostMs);
    }
    worker.start();
    upkeep.start();
    await this.rest();
  }

  /** Ends the process where it stands: nothing is settled, noted or waited for. */
  async crash(): Promise<void> {
    this.note("crash");
    this.crashes += 1;
    this.disturbances += 1;
    const ended = this.life.end();
    this.machine.forgetTimers();
    this.invariants.onCrash();
    await ended;
  }

  /** Lets everything happen that can happen without time passing. */
  async rest(): Promise<void> {
    let quiet = 0;
    for (let turns = 0; quiet < 2; turns++) {
      if (turns > 50_000) throw new Error("the service does not come to rest");
      await turn();
      quiet = this.life.store.pending() > 0 || this.machine.runDue() ? 0 : quiet + 1;
    }
  }

  /** Lets time pass. A long time passes in strides, as it does for a process that is rarely given the processor. */
  async advance(ms: number): Promise<void> {
    const strideMs = Math.floor(ms / 24);
    for (let leftMs = ms; leftMs > 0;) {
      const stepMs = Math.min(leftMs, Math.max(strideMs, this.machine.nextInMs()));
      if (stepMs > this.machine.nextInMs() + 4_000) this.disturbances += 1;
      this.machine.pass(stepMs);
      leftMs -= stepMs;
      await this.rest();
    }
  }

  /** Sets the machine's clock. */
  setWall(byMs: number): void {
    this.note("clock", byMs);
    if (byMs > 0) this.disturbances += 1;
    this.machine.setWall(byMs);
  }

  /** Makes the database fail at every commit that changes a verification or a message, or heals it. */
  breakCommits(broken: boolean): void {
    if (broken) this.disturbances += 1;
    this.db.prepare("UPDATE broken SET commits = ?").run(broken ? 1 : 0);
  }

  async end(): Promise<void> {
    await this.life.end();
    this.remove();
  }

  /** Removes the files, in whatever state things are. */
  remove(): void {
    this.db.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** A constraint that SQLite checks at COMMIT alone, and that fails while `broken.commits` is set. */
function addBreakableCommits(db: Database): void {
  db.exec(`
    CREATE TABLE broken (commits INTEGER NOT NULL);
    INSERT INTO broken VALUES (0);
    CREATE TABLE nowhere (id INTEGER PRIMARY KEY);
    CREATE TABLE breaker (id INTEGER REFERENCES nowhere DEFERRABLE INITIALLY DEFERRED);
    CREATE TRIGGER break_insert AFTER INSERT ON verifications WHEN (SELECT commits FROM broken) = 1
      BEGIN INSERT INTO breaker VALUES (1); END;
    CREATE TRIGGER break_update AFTER UPDATE ON verifications WHEN (SELECT commits FROM broken) = 1
      BEGIN INSERT INTO breaker VALUES (1); END;
    CREATE TRIGGER break_message AFTER INSERT ON messages WHEN (SELECT commits FROM broken) = 1
      BEGIN INSERT INTO breaker VALUES (1); END;
  `);
}
