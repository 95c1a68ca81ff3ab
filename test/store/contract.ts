/**
 * The store's contract: every promise of src/store/store.ts as a case, for any database. A database's own test hands in
 * how to open a fresh store on it, and runs the lot: `storeContract("SQLite", openStore)`.
 */
import { afterEach, beforeEach, describe } from "vitest";
import type { Store } from "../../src/store/store.ts";
import type { ManualSystem } from "../support/service/system.ts";
import { createActs, type Acts } from "./acts.ts";
import { botPassCases } from "./contract-bot-pass.ts";
import { capCases } from "./contract-caps.ts";
import { decisionCases } from "./contract-decisions.ts";
import { endpointCases } from "./contract-endpoints.ts";
import { eventCases } from "./contract-events.ts";
import { findingCases } from "./contract-finding.ts";
import { furtherCallCases } from "./contract-further-calls.ts";
import { guessCases } from "./contract-guesses.ts";
import { limitCases } from "./contract-limits.ts";
import { fallbackCases } from "./contract-fallback.ts";
import { logCases } from "./contract-log.ts";
import { outboxCases } from "./contract-outbox.ts";
import { tenantCases } from "./contract-tenants.ts";
import { recordCases } from "./contract-records.ts";
import { phoneCases } from "./contract-phones.ts";
import { prefixCases } from "./contract-prefixes.ts";
import { providerTextCases } from "./contract-provider-text.ts";
import { destinationCases } from "./contract-spending.ts";
import { statisticsCases } from "./contract-statistics.ts";
import { masterKeyCases } from "./contract-master-keys.ts";
import { upkeepCases } from "./contract-upkeep.ts";

/** A store on a fresh database, and what a test may do to it. */
export interface Opened {
  readonly store: Store;
  /** The store's clock and chance. */
  readonly system: ManualSystem;
  /** How many rows beside its verification's a phone has that was just sent to, with its two limits. */
  readonly bucketRows: number;
  /** Opens the same database once more beside the first, as another process would, on the same clock. */
  beside(): Promise<Store>;
  /** The same, sharing nothing with the others: for a case that closes it. */
  alone(): Promise<Store>;
  /** Closes the store and opens the same database again: what is in it then is what was durable. */
  reopen(): Promise<Store>;
  /** Marks the database as written by a version to come. */
  markNewer(): Promise<void>;
  /** Closes whatever is open and deletes the database. */
  end(): Promise<void>;
}

export type OpenStore = () => Promise<Opened>;

/** Opens one database any number of times; `end` closes all that is open. */
export async function openings(
  openOnce: () => Promise<Store>,
): Promise<Pick<Opened, "store" | "beside" | "reopen" | "end">> {
  const stores: Store[] = [];
  const open = async () => {
    const store = await openOnce();
    stores.push(store);
    return store;
  };
  const end = async () => {
    for (const store of stores.splice(0)) await store.close();
  };
  const reopen = async () => {
    await end();
    return open();
  };
  return { store: await open(), beside: open, reopen, end };
}

/** What a case works with; fresh for every one. */
export interface StoreFixture extends Opened {
  readonly acts: Acts;
}

/** Gives a case a fresh store. */
export type WithStore = (run: (fixture: StoreFixture) => Promise<void>) => () => Promise<void>;

/** Declares the cases for one database. */
export function storeContract(name: string, openStore: OpenStore): void {
  let opened: Opened;
  beforeEach(async () => {
    opened = await openStore();
  });
  afterEach(() => opened.end());
  const withStore: WithStore = (run) => () => run({ ...opened, acts: createActs(opened.store, opened.system) });

  describe(`the store on ${name}`, () => {
    decisionCases(withStore);
    recordCases(withStore);
    botPassCases(withStore);
    outboxCases(withStore);
    fallbackCases(withStore);
    logCases(withStore);
    providerTextCases(withStore);
    masterKeyCases(withStore);
    upkeepCases(withStore);
    statisticsCases(withStore);
    guessCases(withStore);
    phoneCases(withStore);
    findingCases(withStore);
    tenantCases(withStore);
    prefixCases(withStore);
    destinationCases(withStore);
    limitCases(withStore);
    capCases(withStore);
    furtherCallCases(withStore);
    eventCases(withStore);
    endpointCases(withStore);
  });
}
