/**
 * Long reads on PostgreSQL: reads over many rows on a connection of their own, so that no call waits for them. It is
 * opened by the first, and closed when none was asked for in a while.
 */
import { DatabaseError } from "pg";
import { longReadMsMax, longReadQueueMax, longReadRowsMax } from "../engine.ts";
import type { Statement, Value } from "../statement.ts";
import { LongReadEnded, StoreUnavailable } from "../store.ts";
import { createConnections } from "./connections.ts";
import type { ConnectionsOptions } from "./pool.ts";

/**
 * How PostgreSQL does them. It plans each with its values, which tell how few rows are not summed yet. It uses one core, since
 * others are the calls', and starting a second process takes more than it spares. Nor does it compile sums for one use.
 */
const settings = { plan_cache_mode: "force_custom_plan", max_parallel_workers_per_gather: 0, jit: "off" };

/** PostgreSQL's word for a statement that took too long. */
const canceled = "57014";

export interface LongReads {
  read<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;
  close(): Promise<void>;
}

export interface LongReadsOptions extends Pick<ConnectionsOptions, "url" | "waitFactor"> {
  /** One read takes no longer. */
  readonly timeoutMs?: number;
}

export function createLongReads({ timeoutMs = longReadMsMax, ...database }: LongReadsOptions): LongReads {
  const connections = createConnections({ ...database, connectionsMax: 1, statementMsMax: timeoutMs, settings });
  let asked = 0;
  let last = Promise.resolve();
  return {
    async read<Row>({ name, text }: Statement, values: readonly Value[]) {
      if (asked > longReadQueueMax) throw new LongReadEnded("too many reports wait");
      asked += 1;
      // In a line of our own: who waits for the pool's connection is refused after 3 s, as if there was no database.
      const before = last;
      const turn = Promise.withResolvers<void>();
      last = turn.promise;
      await before;
      try {
        const rows = await connections.query<Row>({ name, text }, values);
        if (rows.length > longReadRowsMax)
          throw new StoreUnavailable(`the report has more than ${longReadRowsMax} rows`);
        return rows;
      } catch (error) {
        const { cause } = error as Error;
        if (!(cause instanceof DatabaseError) || cause.code !== canceled) throw error;
        throw new LongReadEnded(`the report took longer than ${timeoutMs / 1_000} s and was ended`, { cause });
      } finally {
        asked -= 1;
        turn.resolve();
      }
    },
    close: () => connections.close(),
  };
}
