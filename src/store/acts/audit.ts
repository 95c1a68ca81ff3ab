/**
 * The audit as the store keeps it: acts write an entry in their own transaction, and nothing changes one.
 */
import { auditEntry, type Audited, type AuditNote } from "../../otp/audit.ts";
import type { Engine } from "../engine.ts";
import type { AuditStore } from "../registry.ts";
import { auditColumns, auditValues, toAuditEntry, type AuditRow } from "../rows/audit.ts";
import { list, send, valuesOf, type Steps } from "../statement.ts";

const sql = {
  add: {
    name: "add-audit",
    text: `INSERT INTO audit (${list(auditColumns)}) VALUES (${valuesOf(auditColumns)})`,
  },
  /**
   * An empty text asks for any; an actor of another tenant is not found by a tenant's own admin. By time and not by id: what a
   * sample month or a copy brings is older than what was there. The index on time gives the order.
   */
  find: {
    name: "find-audit",
    text: `SELECT id, ${list(auditColumns)} FROM audit
      WHERE ($1 = '' OR tenant = $1) AND ($2 = '' OR actor = $2) AND ($3 = '' OR action = $3)
        AND ($4 = '' OR actor_tenant = $4) AND ($5 = '' OR subject = $5)
        AND at_ms >= $6 AND at_ms < $7 AND (at_ms, id) < ($8, $9)
      ORDER BY at_ms DESC, id DESC LIMIT $10`,
  },
} as const;

/** Writes the entry of an act under way; nothing where it was told of no note. */
export function* noteAudit(engine: Engine, note: AuditNote | undefined, audited: Audited): Steps<void> {
  if (note !== undefined) yield* send(sql.add, auditValues(auditEntry(note, audited, engine.now())));
}

const newest = { atMs: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };

export function auditActs(engine: Engine): AuditStore {
  return {
    addAudit: (note, audited) => engine.transact(() => noteAudit(engine, note, audited)),
    async findAudit({ tenant, actor, action, subject, actorTenant, fromMs, toMs, after = newest, max }) {
      // Said as a bound too, or SQLite would go through the index from its newest end: 170 ms in the middle of a million.
      const beforeMs = Math.min(toMs, after.atMs + 1);
      const values = [tenant, actor, action, actorTenant, subject, fromMs, beforeMs, after.atMs, after.id, max];
      const rows = await engine.report<AuditRow & { readonly id: number }>(sql.find, values);
      return rows.map((row) => ({ id: row.id, entry: toAuditEntry(row) }));
    },
  };
}
