/**
 * Counts the statements that this process runs on its database. What counts is put around the drivers' own functions only
 * once it is asked for, so that what was measured before is as shipped.
 */
import Sqlite from "better-sqlite3";
import { Client } from "pg";

export interface Counted {
  /** All statements, those included that begin and end a transaction. */
  readonly statements: number;
  /** Those of them that begin a transaction. */
  readonly begins: number;
  /** How often each statement was run, by its text. */
  readonly byText: Readonly<Record<string, number>>;
}

type Method = (this: { readonly source: string }, ...args: unknown[]) => unknown;

const byText = new Map<string, number>();
let isCounting = false;

/** Counts from now on. What was counted before is forgotten. */
export function beginCounting(): void {
  byText.clear();
  if (isCounting) return;
  isCounting = true;
  const db = new Sqlite(":memory:");
  const statements = Object.getPrototypeOf(db.prepare("SELECT 1")) as Record<string, Method>;
  db.close();
  for (const name of ["run", "get", "all", "iterate"]) {
    const run = statements[name] as Method;
    statements[name] = function counting(...args) {
      note(this.source);
      return run.apply(this, args);
    };
  }
  const clients = Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
  const { query } = clients;
  clients.query = function counting(...args) {
    const [given] = args as [string | { readonly text: string }];
    note(typeof given === "string" ? given : given.text);
    return query.apply(this, args);
  };
}

function note(text: string): void {
  byText.set(text, (byText.get(text) ?? 0) + 1);
}

export function counted(): Counted {
  const all = [...byText];
  return {
    statements: all.reduce((sum, [, count]) => sum + count, 0),
    begins: all.reduce((sum, [text, count]) => sum + (text.startsWith("BEGIN") ? count : 0), 0),
    byText: Object.fromEntries(byText),
  };
}
