/**
 * Counts refused calls by tenant and reason in memory, and adds them to the statistics each minute and at a stop: a
 * refusal leaves no row, and should cost none. A crash loses the counts since the last time.
 */
import { isSandbox } from "../../otp/message/sandbox.ts";
import { hourOf } from "../../otp/operators/statistics.ts";
import type { Refusals } from "../../store/statistics.ts";
import { StoreUnavailable, type Store } from "../../store/store.ts";
import { recurring, type Recurring, type System } from "../../system.ts";

const everyMs = 60_000;
/** Tenants and reasons in one minute. Beyond them, what is refused is counted as nobody's. */
const keysMax = 2_000;

export interface RefusalCounts extends Recurring {
  /** `tenant` is undefined for a request that came with no valid key. */
  count(tenant: string | undefined, reason: string): void;
}

export interface RefusalCountsOptions {
  readonly store: Pick<Store, "statistics" | "now">;
  readonly system: Pick<System, "after">;
  readonly onFault: (error: unknown) => void;
}

export function createRefusalCounts({ store, system, onFault }: RefusalCountsOptions): RefusalCounts {
  let counted = new Map<string, Refusals>();

  function add({ hour, tenant, reason, count }: Refusals): void {
    const own = counted.has(`${hour}|${tenant}|${reason}`) || counted.size < keysMax ? tenant : "";
    const key = `${hour}|${own}|${reason}`;
    counted.set(key, { hour, tenant: own, reason, count: (counted.get(key)?.count ?? 0) + count });
  }

  async function write(): Promise<void> {
    if (counted.size === 0) return;
    const taken = counted;
    counted = new Map();
    try {
      await store.statistics.addRefusals([...taken.values()]);
    } catch (error) {
      // What may have been added is not added again.
      if (error instanceof StoreUnavailable && !error.mayBeDone) for (const refusals of taken.values()) add(refusals);
      throw error;
    }
  }

  const recurs = recurring(system, everyMs, write, onFault);
  return {
    count(tenant = "", reason) {
      if (!isSandbox(tenant)) add({ hour: hourOf(store.now()), tenant, reason, count: 1 });
    },
    start: recurs.start,
    async stop() {
      await recurs.stop();
      await write().catch(onFault);
    },
  };
}
