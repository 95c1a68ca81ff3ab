/**
 * The audit as the store keeps it: acts write an entry in their own transaction, and nothing changes one.
 */
import { auditEntry, type Audited, type AuditNote } from "../../otp/operators/audit.ts";
import type { Engine } from "../engine.ts";
import type { AuditStore } from "../registry.ts";
import { auditColumns, auditValues, toAuditEntry, type AuditRow } from "../rows/audit.ts";
import { list, send, valuesOf, type Statement, type Steps } from "../statement.ts";

const add = {
  name: "add-audit",
  text: `INSERT INTO audit (${list(auditColumns)}) VALUES (${valuesOf(auditColumns)})`,
};

/** What entries are found by, those of the fewest entries first. Each has an index, but for the actor's tenant. */
const filters = ["subject", "actor", "tenant", "action", "actor_tenant"] as const;
type Filter = (typeof filters)[number];

/**
 * Finds entries by some columns, five values after those: the newest first, by time and not by id: what a sample month or a copy
 * brings is older than what was there. It goes by the index of the first column, which has the order too: SQLite would choose
 * one of several blindly.
 */
export function auditFound(by: readonly Filter[]): Statement {
  const conditions = by.map((column, i) => (i === 0 ? `${column} = $1` : `(${column} = $${i + 1}) IS TRUE`));
  const [from, before, atMs, id, max] = [1, 2, 3, 4, 5].map((place) => `$${by.length + place}`);
  const time = `at_ms >= ${from} AND at_ms < ${before} AND (at_ms, id) < (${atMs}, ${id})`;
  return {
    name: ["find-audit", ...by].join("-"),
    text: `SELECT id, ${list(auditColumns)} FROM audit WHERE ${[...conditions, time].join(" AND ")}
      ORDER BY at_ms DESC, id DESC LIMIT ${max}`,
  };
}

/** Writes the entry of an act under way; nothing where it was told of no note. */
export function* noteAudit(engine: Engine, note: AuditNote | undefined, audited: Audited): Steps<void> {
  if (note !== undefined) yield* send(add, auditValues(auditEntry(note, audited, engine.now())));
}

const newest = { atMs: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };

export function auditActs(engine: Engine): AuditStore {
  return {
    addAudit: (note, audited) => engine.transact(() => noteAudit(engine, note, audited)),
    async findAudit({ tenant, actor, action, subject, actorTenant, fromMs, toMs, after = newest, max }) {
      // Said as a bound too, or SQLite would go through the index from its newest end: 170 ms in the middle of a million.
      const beforeMs = Math.min(toMs, after.atMs + 1);
      const asked: Readonly<Record<Filter, string>> = { tenant, actor, action, subject, actor_tenant: actorTenant };
      // An empty text asks for any.
      const by = filters.filter((column) => asked[column] !== "");
      const values = [...by.map((column) => asked[column]), fromMs, beforeMs, after.atMs, after.id, max];
      const rows = await engine.longRead<AuditRow & { readonly id: number }>(auditFound(by), values);
      return rows.map((row) => ({ id: row.id, entry: toAuditEntry(row) }));
    },
  };
}
