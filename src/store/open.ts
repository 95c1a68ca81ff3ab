/**
 * Where everything is kept: in a SQLite file, for one server on one machine, or in PostgreSQL, for any number of servers.
 */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type { System } from "../system.ts";
import { databaseFile } from "./sqlite/database-file.ts";
import type { Store, StoreWatchers } from "./store.ts";

export type Database =
  | { readonly kind: "sqlite"; readonly path: string }
  /** `url` holds a password: it is not for printing. */
  | { readonly kind: "postgres"; readonly url: string };

export interface OpenOptions extends StoreWatchers {
  readonly database: Database;
  readonly system: System;
  /** True for a process that serves. Of those, a SQLite file has one at a time. */
  readonly exclusive: boolean;
  /** How long such a process waits for another one to let go of the file. */
  readonly lockWaitMs?: number;
  /** Called once where it has to wait, with how long at most. */
  readonly onLockWait?: (waitMs: number) => void;
  /** Called when another server on the same database has left messages for anybody to take. */
  readonly onNudge?: () => void;
}

/** Opens a database, and creates or migrates it as needed. Rejects with a plain sentence. */
export async function openStore({ database, ...options }: OpenOptions): Promise<Store> {
  // Each brings a driver of its own, of which a process needs one.
  if (database.kind === "postgres") {
    const { openPostgres } = await import("./postgres/open.ts");
    return openPostgres({ url: database.url, ...options });
  }
  const path = databaseFile(database.path);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const { openSqlite } = await import("./sqlite/open.ts");
  return openSqlite({ path, ...options });
}
