/**
 * Prefixes as a SQLite database has them: their rows, and what the journal says of them since.
 */
import type { Database } from "better-sqlite3";
import { toPrefix, toPrefixes, type NamedPrefix, type PrefixRow } from "../../../src/store/rows/prefix.ts";

export function storedPrefixes(db: Database): NamedPrefix[] {
  const rows = db.prepare<[], PrefixRow>("SELECT * FROM prefixes").all();
  const journal = db.prepare<[], Buffer>("SELECT prefixes FROM prefix_journal ORDER BY id").pluck().all();
  const stored = rows.map((row) => ({ name: { tenant: row.tenant, prefix: row.prefix }, record: toPrefix(row) }));
  const all = [...stored, ...journal.flatMap(toPrefixes)];
  return [...new Map(all.map((each) => [`${each.name.tenant} ${each.name.prefix}`, each])).values()];
}
