/**
 * What is really in the database: a look at the file itself, beside a server or after its death, past all of the
 * product's own code for reading it.
 */
import Sqlite from "better-sqlite3";

export interface Entry {
  readonly id: string;
  readonly state: "PENDING" | "VERIFIED" | "EXPIRED" | "LOCKED" | "CANCELED" | "FAILED";
  readonly attempts: number;
  readonly resends: number;
  readonly hasSalt: boolean;
}

export interface Book {
  /** Every verification by its id. */
  readonly entries: ReadonlyMap<string, Entry>;
  /** How many messages will be tried or settled yet; those that only wait for a report are not among them. */
  readonly due: number;
  /** How many times a provider was called for each verification, as far as the database knows. */
  readonly calls: ReadonlyMap<string, number>;
  /** "ok", or what SQLite finds broken. */
  readonly integrity: string;
}

const states = ["PENDING", "VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"] as const;

const idOf = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");

/** Reads a database file as it is now. */
export function readBook(path: string): Book {
  const db = new Sqlite(path, { readonly: true, timeout: 5_000 });
  try {
    const entries = db
      .prepare<[], { id: Uint8Array; state: number; attempts: number; resends: number; salted: number }>(
        "SELECT id, state, attempts, resends, salt IS NOT NULL AS salted FROM verifications",
      )
      .all()
      .map(({ id, state, attempts, resends, salted }): Entry => {
        const name = states[state];
        if (name === undefined) throw new Error(`no state ${state}`);
        return { id: idOf(id), state: name, attempts, resends, hasSalt: salted === 1 };
      });
    const calls = db
      .prepare<[], { id: Uint8Array; calls: number }>(
        "SELECT verification_id AS id, sum(calls) AS calls FROM messages GROUP BY verification_id",
      )
      .all();
    return {
      entries: new Map(entries.map((entry) => [entry.id, entry])),
      calls: new Map(calls.map((row) => [idOf(row.id), row.calls])),
      due: countDue(db),
      integrity: String(db.pragma("integrity_check", { simple: true })),
    };
  } finally {
    db.close();
  }
}

/** How many messages will be tried or settled yet; cheap. */
export function dueIn(path: string): number {
  const db = new Sqlite(path, { readonly: true, timeout: 5_000 });
  try {
    return countDue(db);
  } finally {
    db.close();
  }
}

function countDue(db: Sqlite.Database): number {
  return (
    db.prepare<[], { due: number }>("SELECT count(*) AS due FROM messages WHERE due_ms < deadline_ms").get()?.due ?? 0
  );
}
