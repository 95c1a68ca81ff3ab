/**
 * What the acts on callers' keys and on operators' have in common; each kind has a table of its own.
 */
import type { Audited, AuditNote } from "../../otp/operators/audit.ts";
import type { Engine } from "../engine.ts";
import type { Replacement } from "../registry.ts";
import { noteAudit } from "./audit.ts";
import { list, query, send, valuesOf, type Steps, type Value } from "../statement.ts";

interface StoredKey {
  readonly id: string;
  readonly expireMs: number | null;
  readonly revokeMs: number | null;
}

export interface KeyTable<Key extends StoredKey, Row> {
  readonly table: "api_keys" | "admin_keys";
  readonly columns: readonly string[];
  readonly valuesOf: (key: Key) => Value[];
  readonly toKey: (row: Row) => Key;
  readonly audited: (key: Key) => Required<Pick<Audited, "tenant" | "subject" | "after">>;
}

/** The steps on a table of keys. */
export function keySteps<Key extends StoredKey, Row>(engine: Engine, of: KeyTable<Key, Row>) {
  const { table, columns } = of;
  const sql = {
    all: { name: `all-${table}`, text: `SELECT ${list(columns)} FROM ${table} ORDER BY create_ms, id` },
    locked: {
      name: `lock-one-of-${table}`,
      text: `SELECT ${list(columns)} FROM ${table} WHERE id = $1`,
      locksRows: true,
    },
    insert: {
      name: `insert-${table}`,
      text: `INSERT INTO ${table} (${list(columns)}) VALUES (${valuesOf(columns)})`,
      changesRecalled: true,
    },
    revoke: {
      name: `revoke-${table}`,
      text: `UPDATE ${table} SET revoke_ms = $1 WHERE id = $2`,
      changesRecalled: true,
    },
    end: { name: `end-${table}`, text: `UPDATE ${table} SET expire_ms = $1 WHERE id = $2`, changesRecalled: true },
    touch: {
      name: `touch-${table}`,
      text: `UPDATE ${table} SET last_use_ms = $1 WHERE id = $2`,
      changesRecalled: true,
    },
    refuse: {
      name: `refuse-${table}`,
      text: `UPDATE ${table} SET last_refuse_ms = $1 WHERE id = $2`,
      changesRecalled: true,
    },
  } as const;

  function* locked(id: string): Steps<Key | undefined> {
    const [row] = yield* query<Row>(sql.locked, [id]);
    return row === undefined ? undefined : of.toKey(row);
  }

  function* add(key: Key, note: AuditNote | undefined): Steps<void> {
    yield* send(sql.insert, of.valuesOf(key));
    yield* noteAudit(engine, note, of.audited(key));
  }

  function* changed(before: Key, after: Key, note: AuditNote | undefined): Steps<void> {
    yield* noteAudit(engine, note, { ...of.audited(after), before: of.audited(before).after });
  }

  return {
    add,
    async all() {
      return (await engine.query<Row>(sql.all, [])).map(of.toKey);
    },
    /** False if there is none. Revoking twice keeps the first time. */
    *revoke(id: string, now: number, note: AuditNote | undefined): Steps<boolean> {
      const key = yield* locked(id);
      if (key === undefined) return false;
      if (key.revokeMs !== null) return true;
      yield* send(sql.revoke, [now, id]);
      yield* changed(key, { ...key, revokeMs: now }, note);
      return true;
    },
    /** Gives when the replaced key ends now; undefined where it has ended, or there is none. */
    *replace(id: string, replacement: Replacement<Key>, note: AuditNote | undefined): Steps<number | undefined> {
      const { next, endMs, now } = replacement;
      const key = yield* locked(id);
      if (key === undefined || key.revokeMs !== null || (key.expireMs !== null && key.expireMs <= now))
        return undefined;
      const expireMs = Math.min(key.expireMs ?? endMs, endMs);
      yield* send(sql.end, [expireMs, id]);
      yield* changed(key, { ...key, expireMs }, note);
      yield* add(next, note && { ...note, action: "api_key.create" });
      return expireMs;
    },
    async touch(id: string, now: number): Promise<void> {
      await engine.write(sql.touch, [now, id]);
    },
    async noteRefused(id: string, now: number): Promise<void> {
      await engine.write(sql.refuse, [now, id]);
    },
  };
}
