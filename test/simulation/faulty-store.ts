/**
 * What stands between the service and its real store in the simulation: acts arrive after a few turns of the event loop,
 * so that those of parallel calls change places; some are refused, some are done but never heard of; and after a crash
 * nothing gets through in either direction.
 */
import type { SettleView } from "../../src/otp/decisions/settlement.ts";
import { StoreUnavailable, type Job, type Store } from "../../src/store/store.ts";
import type { Chance } from "./chance.ts";
import { turn } from "./machine.ts";

export interface FaultyStore extends Store {
  /** Acts that have been asked for and not answered. */
  pending(): number;
  /** From now on no act reaches the store and no answer comes back. */
  cut(): void;
}

export interface Faults {
  /** The share of acts that the store refuses. */
  refused: number;
  /** The share of acts that the store does, but of which no answer arrives. */
  unheard: number;
}

/** Puts faults before a store. `onDone` hears each act's result as soon as it is durable, before anyone else does. */
export function createFaultyStore(
  store: Store,
  chance: Chance,
  faults: Faults,
  onDone: (act: keyof Store, result: unknown) => void,
): FaultyStore {
  let pending = 0;
  let isCut = false;
  const never = new Promise<never>(() => {});

  async function through(act: keyof Store, run: () => Promise<unknown>): Promise<unknown> {
    if (isCut) return never;
    pending += 1;
    try {
      for (let turns = chance.below(4); turns > 0; turns--) await turn();
      if (isCut) return await never;
      if (chance.happens(faults.refused)) throw new StoreUnavailable("refused by the simulation");
      const result = await run();
      onDone(act, result);
      if (chance.happens(faults.unheard)) throw new StoreUnavailable("lost by the simulation");
      return isCut ? await never : result;
    } catch (error) {
      if (isCut) return await never;
      throw error;
    } finally {
      pending -= 1;
    }
  }

  const own: Pick<FaultyStore, "now" | "registry" | "events" | "pending" | "cut"> = {
    registry: store.registry,
    events: store.events,
    now: () => store.now(),
    pending: () => (isCut ? 0 : pending),
    cut: () => {
      isCut = true;
    },
  };
  /** What is given up while messages are claimed is a settlement like any other. */
  const claimMessages: Store["claimMessages"] = (max, phoneOf, decideLate, billOf) =>
    through("claimMessages", async () => {
      const settled: unknown[] = [];
      const heard = (view: SettleView) => {
        const decided = decideLate(view);
        settled.push(decided.result);
        return decided;
      };
      const jobs = await store.claimMessages(max, phoneOf, heard, billOf);
      for (const result of settled) onDone("settleMessage", result);
      return jobs;
    }) as Promise<Job[]>;
  /** Each message that is claimed by it is owed by it. */
  const claimFallbacks: Store["claimFallbacks"] = (max, rules) =>
    through("claimFallbacks", async () => {
      const jobs = await store.claimFallbacks(max, rules);
      for (const job of jobs) onDone("claimFallbacks", { kind: "fell back", ...job });
      return jobs;
    }) as Promise<Job[]>;
  const acts = store as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  return new Proxy(own, {
    get(_, name: string) {
      if (name in own) return own[name as keyof typeof own];
      if (name === "claimMessages") return claimMessages;
      if (name === "claimFallbacks") return claimFallbacks;
      return (...args: unknown[]) => through(name as keyof Store, async () => acts[name]?.apply(store, args));
    },
  }) as FaultyStore;
}
