/**
 * How tests open a store: as the service does, but for its patience. The service waits 3 s for a connection to PostgreSQL and 5 s
 * for a statement, which a busy machine may need for one.
 */
import { openStore, type OpenOptions } from "../../../src/store/open.ts";
import { openPostgres, type PostgresOptions } from "../../../src/store/postgres/open.ts";
import type { Store } from "../../../src/store/store.ts";

/** So many times as long as the service tests wait for PostgreSQL. */
export const waitFactor = 50;

export function openPatiently(options: OpenOptions): Promise<Store> {
  return openStore({ ...options, waitFactor });
}

/** The same by the clock of `options.system`: on PostgreSQL it is the database's own otherwise, which no test can move. */
export function openByOwnClock({ database, ...options }: OpenOptions): Promise<Store> {
  if (database.kind !== "postgres") return openStore({ database, ...options });
  return openOnPostgres({ ...options, url: database.url });
}

export function openOnPostgres(options: Omit<PostgresOptions, "clock" | "waitFactor">): Promise<Store> {
  return openPostgres({ ...options, clock: "system", waitFactor });
}
