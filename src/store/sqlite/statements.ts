/**
 * The statements that are SQLite's own: those of the unit of work and of the sweep, and those that find what is due.
 * What a row means is in rows/.
 */
import type { Database } from "better-sqlite3";
import { prefixDigitsMax } from "../../otp/verification/destination.ts";
import type { Guesses } from "../../otp/verification/spraying.ts";
import * as events from "../rows/event.ts";
import { addLateSums } from "../rows/sums.ts";
import { recordColumns, type RecordRow } from "../rows/record.ts";
import { auditColumns } from "../rows/audit.ts";
import * as prefixes from "../rows/prefix.ts";
import { changingColumns, verificationColumns, type VerificationRow } from "../rows/verification.ts";
import { messageColumns, type MessageRow } from "../rows/message.ts";
import { type HomeRow, type KeptRow, type PhoneRow } from "../rows/phone.ts";
import { destinationColumns, type CounterRow, type DestinationRow } from "../rows/tenant.ts";
import { findingStatements } from "../acts/finding.ts";
import { list, updates } from "../statement.ts";

const marks = (columns: readonly string[]) => columns.map(() => "?").join(", ");

/**
 * Values that SQLite does not look at when it plans. Beside an ORDER BY it looks at those that a column equals, and at a
 * LIMIT's, and then plans anew at each run, which takes ten times as long as what is asked for.
 */
const equalTo = (mark: string) => `= +${mark}`;
const limitedTo = (mark: string) => `LIMIT CAST(${mark} AS INTEGER)`;

export type Statements = ReturnType<typeof prepare>;

/** Whether a message is of the verification with an id, found by when that was opened. */
const isOf = (id: string) =>
  `opened_ms = (SELECT create_ms FROM verifications WHERE id = ${id}) AND verification_id ${equalTo(id)}`;

export const messagesOf = {
  name: "messages-of",
  text: `SELECT ${list(messageColumns)} FROM messages WHERE ${isOf("$1")} ORDER BY copy`,
};

export const messagesJoin = "messages AS m ON m.opened_ms = v.create_ms AND m.verification_id = v.id";

export const dueMessages = {
  name: "due-messages",
  text: `SELECT verification_id, copy FROM messages WHERE due_ms <= $1 ORDER BY due_ms ${limitedTo("$2")}`,
};

/** Every verification has a first message, and messages are in the order in which their verifications were opened. */
export const finding = findingStatements(
  `SELECT opened_ms AS create_ms, verification_id AS id FROM messages
    WHERE (opened_ms, verification_id) < ($1, $2) AND opened_ms >= $3 AND copy = 0
    ORDER BY opened_ms DESC, verification_id DESC LIMIT $4`,
);

export const dueFallbacks = {
  name: "due-fallbacks",
  text: `SELECT id FROM verifications WHERE fallback_ms <= $1 ORDER BY fallback_ms ${limitedTo("$2")}`,
};

export const listsOrigin = {
  name: "lists-origin",
  text: `SELECT 1 FROM key_origins WHERE origin = $1 AND end_ms > $2 LIMIT 1`,
};

/** From one endpoint that something waits for to the next, so that a long backlog costs no more than a short one. */
export const dueEvents = {
  name: "due-events",
  text: `WITH RECURSIVE waiting (id) AS (
      SELECT min(endpoint_id) FROM events
      UNION ALL SELECT (SELECT min(endpoint_id) FROM events WHERE endpoint_id > w.id) FROM waiting AS w
      WHERE w.id IS NOT NULL
    )
    SELECT events.* FROM waiting AS w CROSS JOIN events ON events.rowid IN (
      SELECT rowid FROM events AS e WHERE e.endpoint_id = w.id AND e.due_ms <= $1 ORDER BY e.due_ms ${limitedTo("$2")}
    ) WHERE w.id NOT IN (SELECT value FROM json_each($3)) ORDER BY events.due_ms ${limitedTo("$4")}`,
};

/** A prepared statement. Its values are bound in their order, or by name from one object. */
interface Query<Row> {
  get(...values: unknown[]): Row | undefined;
  all(...values: unknown[]): Row[];
  run(...values: unknown[]): { readonly changes: number; readonly lastInsertRowid: number | bigint };
}

type Prepare = <Row>(sql: string) => Query<Row>;

/** Writes of many rows are cut into these numbers of them: each is a statement of its own, prepared once. */
const rowsAtOnce = [16, 4, 1];

/** A write of any number of rows, of `insert`'s columns, with what follows the values. Each row is a list of its values. */
function manyRows(statement: Prepare, insert: string, columns: readonly string[], rest: string) {
  const place = `(${marks(columns)})`;
  const prepared = rowsAtOnce.map((count) => ({
    count,
    query: statement(`${insert} (${list(columns)}) VALUES ${Array(count).fill(place).join(", ")} ${rest}`),
  }));
  return (rows: readonly (readonly unknown[])[]): void => {
    let done = 0;
    for (const { count, query } of prepared) {
      for (; rows.length - done >= count; done += count) query.run(...rows.slice(done, done + count).flat());
    }
  };
}

/** Prepares them all, once per connection: preparing costs more than running. */
export function prepare(db: Database) {
  const statement: Prepare = <Row>(sql: string) => db.prepare<unknown[], Row>(sql);
  return {
    ...verificationStatements(statement),
    ...phoneStatements(statement),
    ...prefixStatements(statement),
    ...recordStatements(statement),
    ...tenantStatements(statement),
    ...fileStatements(statement),
    addLateSums: statement(addLateSums("").text.replaceAll(/\$\d+/g, "?")),
    addAudit: statement(`INSERT INTO audit (${list(auditColumns)}) VALUES (${marks(auditColumns)})`),
  };
}

const changes = changingColumns.map((column) => `${column} = ?`).join(", ");

function verificationStatements(statement: Prepare) {
  return {
    verification: statement<VerificationRow>(`SELECT ${list(verificationColumns)} FROM verifications WHERE id = ?`),
    insertVerifications: manyRows(statement, `INSERT INTO verifications`, [...verificationColumns, "of_phone"], ""),
    updateVerification: statement(`UPDATE verifications SET ${changes} WHERE id = ?`),
    updateVerificationAndPhone: statement(`UPDATE verifications SET of_phone = ?, ${changes} WHERE id = ?`),
    updatePhone: statement(`UPDATE verifications SET of_phone = ? WHERE id = ?`),
    home: statement<{ create_ms: number } & HomeRow>(
      `SELECT create_ms, phone_index, kid, of_phone FROM verifications WHERE id = ?`,
    ),
    outlived: statement<{ id: Uint8Array; create_ms: number } & HomeRow>(
      `SELECT id, create_ms, phone_index, kid, of_phone FROM verifications
       WHERE end_ms IS NOT NULL AND end_ms <= ? ORDER BY end_ms LIMIT ?`,
    ),
    deleteVerification: statement(`DELETE FROM verifications WHERE id = ?`),
    message: statement<MessageRow>(`SELECT ${list(messageColumns)} FROM messages WHERE ${isOf("?")} AND copy = ?`),
    putMessages: manyRows(
      statement,
      `INSERT INTO messages`,
      [...messageColumns, "opened_ms"],
      `ON CONFLICT (opened_ms, verification_id, copy) DO UPDATE SET ${updates(messageColumns.slice(2))}`,
    ),
    deleteMessages: statement(`DELETE FROM messages WHERE opened_ms = ? AND verification_id = ?`),
  };
}

/** What is kept of phones, and the guesses at each tenant's. */
function phoneStatements(statement: Prepare) {
  return {
    openAttempts: statement<{ open: number | null }>(
      `SELECT sum(attempts_max - attempts) AS open FROM verifications
       WHERE phone_index = ? AND create_ms > ? AND end_ms IS NULL AND expire_ms > ?`,
    ),
    /** Rows of verifications in which something is kept of a phone. */
    homesFrom: statement<{ rowid: number } & HomeRow>(
      `SELECT rowid, phone_index, kid, of_phone FROM verifications
       WHERE rowid > ? AND of_phone IS NOT NULL ORDER BY rowid LIMIT ?`,
    ),
    /**
     * All buckets of an index that have rows, whose keys begin with it; its history if it has one; its home if it has one: the
     * latest verification, or another where the clock was set back.
     */
    phoneRows: statement<KeptRow>(
      `SELECT bucket AS phone_index, tat_ms, NULL AS wrong_codes, NULL AS refunds, NULL AS home, NULL AS of_phone
       FROM buckets WHERE bucket > ? AND bucket < ?
       UNION ALL SELECT phone_index, NULL, wrong_codes, refunds, NULL, NULL FROM phones WHERE phone_index = ?
       UNION ALL SELECT * FROM (
         SELECT phone_index, NULL, NULL, NULL, id, of_phone FROM verifications
         WHERE phone_index ${equalTo("?")} AND of_phone IS NOT NULL ORDER BY create_ms DESC LIMIT 1
       )`,
    ),
    putTats: manyRows(
      statement,
      `INSERT INTO buckets`,
      ["bucket", "tat_ms", "kid"],
      `ON CONFLICT (bucket) DO UPDATE SET ${updates(["tat_ms", "kid"])}`,
    ),
    deleteTat: statement(`DELETE FROM buckets WHERE bucket = ?`),
    bucketsFrom: statement<{ bucket: Uint8Array; tat_ms: number }>(
      `SELECT bucket, tat_ms FROM buckets WHERE bucket > ? ORDER BY bucket LIMIT ?`,
    ),
    putPhones: manyRows(
      statement,
      `INSERT OR REPLACE INTO phones`,
      ["phone_index", "wrong_codes", "refunds", "kid"],
      "",
    ),
    deletePhone: statement(`DELETE FROM phones WHERE phone_index = ?`),
    phonesFrom: statement<PhoneRow>(
      `SELECT phone_index, wrong_codes, refunds FROM phones WHERE phone_index > ? ORDER BY phone_index LIMIT ?`,
    ),
    // One row a minute and tenant. What a read costs is in its ten rows, what a write costs in its one page.
    guesses: statement<Guesses>(
      `SELECT coalesce(sum(wrong_codes), 0) AS wrong, coalesce(sum(right_codes), 0) AS right
       FROM guesses WHERE tenant = ? AND minute >= ?`,
    ),
    addGuesses: statement(
      `INSERT INTO guesses (tenant, minute, wrong_codes, right_codes) VALUES (?, ?, ?, ?)
       ON CONFLICT (tenant, minute) DO UPDATE SET wrong_codes = wrong_codes + excluded.wrong_codes,
         right_codes = right_codes + excluded.right_codes`,
    ),
    oldGuesses: statement<{ tenant: string; minute: number }>(
      `SELECT tenant, minute FROM guesses WHERE minute < ? LIMIT ?`,
    ),
    deleteGuesses: statement(`DELETE FROM guesses WHERE tenant = ? AND minute = ?`),
  };
}

function prefixStatements(statement: Prepare) {
  return {
    prefix: statement<prefixes.PrefixRow>(
      `SELECT ${list(prefixes.prefixColumns)} FROM prefixes WHERE tenant = ? AND prefix = ?`,
    ),
    putPrefixes: manyRows(statement, `INSERT OR REPLACE INTO prefixes`, prefixes.prefixColumns, ""),
    insertPrefixChanges: statement(`INSERT INTO prefix_journal (prefixes) VALUES (?)`),
    prefixChanges: statement<{ id: number; prefixes: Uint8Array }>(
      `SELECT id, prefixes FROM prefix_journal ORDER BY id`,
    ),
    deletePrefixChanges: statement(`DELETE FROM prefix_journal WHERE id <= ?`),
    deletePrefix: statement(`DELETE FROM prefixes WHERE tenant = ? AND prefix = ?`),
    prefixesFrom: statement<prefixes.PrefixRow>(
      `SELECT ${list(prefixes.prefixColumns)} FROM prefixes WHERE (tenant, prefix) > (?, ?) ORDER BY tenant, prefix LIMIT ?`,
    ),
    insertPrefixDecision: statement(
      `INSERT INTO prefix_decisions (${list(prefixes.decisionColumns)}) VALUES (${marks(prefixes.decisionColumns)})`,
    ),
    trimPrefixDecisions: statement(
      `DELETE FROM prefix_decisions WHERE tenant = ? AND prefix = ? AND id <=
       (SELECT id FROM prefix_decisions WHERE tenant = ? AND prefix = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
    ),
    outlivedPrefixDecisions: statement<{ id: number }>(
      `SELECT id FROM prefix_decisions WHERE at_ms <= ? ORDER BY at_ms LIMIT ?`,
    ),
    outlivedAudit: statement<{ id: number }>(`SELECT id FROM audit WHERE at_ms < ? ORDER BY at_ms LIMIT ?`),
    deleteAudit: statement(`DELETE FROM audit WHERE id = ?`),
    deletePrefixDecision: statement(`DELETE FROM prefix_decisions WHERE id = ?`),
  };
}

function recordStatements(statement: Prepare) {
  const namedFinders = new Map<number, Query<RecordRow>>();
  /** By how many names are asked for: one more than there are master keys. */
  function recordsNamed(names: number): Query<RecordRow> {
    let finder = namedFinders.get(names);
    if (finder === undefined) {
      finder = statement<RecordRow>(
        `SELECT ${list(recordColumns)} FROM idempotency
         WHERE slot IN (${Array(names).fill("?").join(", ")})`,
      );
      namedFinders.set(names, finder);
    }
    return finder;
  }
  return {
    recordsNamed,
    putRecord: statement(
      `INSERT OR REPLACE INTO idempotency (${list(recordColumns)})
       VALUES (${marks(recordColumns)})`,
    ),
    deleteRecord: statement(`DELETE FROM idempotency WHERE slot = ?`),
    recordsFrom: statement<{ slot: Uint8Array; expire_ms: number }>(
      `SELECT slot, expire_ms FROM idempotency WHERE slot > ? ORDER BY slot LIMIT ?`,
    ),
  };
}

/** What a send looks up or writes of its tenant. */
function tenantStatements(statement: Prepare) {
  return {
    anyDestination: statement(`SELECT 1 FROM destinations WHERE tenant = ? LIMIT 1`),
    longestDestination: statement<DestinationRow>(
      `SELECT ${list(destinationColumns)} FROM destinations
       WHERE tenant ${equalTo("?")} AND prefix IN (${marks(Array.from({ length: prefixDigitsMax }, String))})
       ORDER BY length(prefix) DESC LIMIT 1`,
    ),
    counter: statement<CounterRow>(
      `SELECT day, count, warned, warned_cap FROM counters WHERE tenant = ? AND day = ? AND kind = ?`,
    ),
    putCounter: statement(
      `INSERT INTO counters (tenant, day, kind, count, warned, warned_cap) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (tenant, day, kind) DO UPDATE
       SET count = excluded.count, warned = excluded.warned, warned_cap = excluded.warned_cap`,
    ),
    deleteCounters: statement(`DELETE FROM counters WHERE day < ?`),
    // What is known by its id already is the same event.
    insertEvent: statement(
      `INSERT INTO events (${list(events.eventColumns)}, due_ms, tries, endpoint_id)
       SELECT ${marks(events.eventColumns)}, ?, 0, e.id FROM webhook_endpoints AS e
       WHERE e.tenant = ? AND ${events.isTold("?")}
       ON CONFLICT (endpoint_id, id) DO NOTHING`,
    ),
  };
}

function fileStatements(statement: Prepare) {
  return {
    dataVersion: statement<{ data_version: number }>(`PRAGMA data_version`),
    clock: statement<{ now_ms: number }>(`SELECT now_ms FROM clock WHERE id = 1`),
    noteClock: statement(`UPDATE clock SET now_ms = ? WHERE id = 1`),
  };
}
