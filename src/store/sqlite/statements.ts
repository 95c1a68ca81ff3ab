/**
 * Every SQL statement that the store runs on SQLite, by what it does. Their order of use, and the transactions around
 * them, are in sqlite.ts; what a row means is in ts.
 */
import type { Database } from "better-sqlite3";
import { prefixDigitsMax } from "../../otp/destination.ts";
import type { Guesses } from "../../otp/spray.ts";
import * as events from "../rows/event.ts";
import type { RecordRow } from "../rows/record.ts";
import * as prefixes from "../rows/prefix.ts";
import { type VerificationRow, verificationColumns } from "../rows/verification.ts";
import { messageColumns, type MessageRow, type OutboxRow } from "../rows/message.ts";
import { type PhoneRow } from "../rows/phone.ts";
import { type ApiKeyRow } from "../rows/api-key.ts";
import { tenantColumns, type DailyRow, type DestinationRow, type TenantRow } from "../rows/tenant.ts";

const list = (columns: readonly string[]) => columns.join(", ");
const changed = (columns: readonly string[]) => columns.map((column) => `${column} = excluded.${column}`).join(", ");
const marks = (columns: readonly string[]) => columns.map(() => "?").join(", ");

export type Statements = ReturnType<typeof prepare>;

/** A prepared statement. Its values are bound in their order, or by name from one object. */
interface Query<Row> {
  get(...values: unknown[]): Row | undefined;
  all(...values: unknown[]): Row[];
  run(...values: unknown[]): { readonly changes: number };
}

/** Prepares them all, once per connection: preparing costs more than running. */
export function prepare(db: Database) {
  const statement = <Row>(sql: string): Query<Row> => db.prepare<unknown[], Row>(sql);
  const namedFinders = new Map<number, Query<RecordRow>>();
  /** By how many names are asked for: one more than there are master keys. */
  function recordsNamed(names: number): Query<RecordRow> {
    let finder = namedFinders.get(names);
    if (finder === undefined) {
      finder = statement<RecordRow>(
        `SELECT slot, kid, fingerprint, verification_id, answer, busy_until_ms, expire_ms FROM idempotency
         WHERE slot IN (${Array(names).fill("?").join(", ")})`,
      );
      namedFinders.set(names, finder);
    }
    return finder;
  }
  return {
    verification: statement<VerificationRow>(`SELECT ${list(verificationColumns)} FROM verifications WHERE id = ?`),
    insertVerification: statement(
      `INSERT INTO verifications (${list(verificationColumns)}) VALUES (${marks(verificationColumns)})`,
    ),
    updateVerification: statement(
      `UPDATE verifications SET salt = ?, state = ?, delivery = ?, attempts = ?, resends = ?, next_resend_ms = ?, end_ms = ?
       WHERE id = ?`,
    ),
    verificationsOfPhone: statement<VerificationRow>(
      `SELECT ${list(verificationColumns)} FROM verifications
       WHERE phone_index = ? ORDER BY create_ms DESC LIMIT ?`,
    ),
    openAttempts: statement<{ open: number | null }>(
      `SELECT sum(attempts_max - attempts) AS open FROM verifications
       WHERE phone_index = ? AND create_ms > ? AND end_ms IS NULL AND expire_ms > ?`,
    ),
    message: statement<MessageRow>(
      `SELECT ${list(messageColumns)} FROM messages WHERE verification_id = ? AND copy = ?`,
    ),
    messages: statement<MessageRow>(
      `SELECT ${list(messageColumns)} FROM messages WHERE verification_id = ? ORDER BY copy`,
    ),
    dueMessages: statement<Pick<MessageRow, "verification_id" | "copy">>(
      `SELECT verification_id, copy FROM messages WHERE due_ms <= ? ORDER BY due_ms LIMIT ?`,
    ),
    nextDue: statement<{ due: number | null }>(`SELECT min(due_ms) AS due FROM messages WHERE due_ms IS NOT NULL`),
    // What only waits for its provider's report is due at its deadline.
    outbox: statement<OutboxRow>(
      `SELECT (SELECT min(due_ms) FROM messages WHERE due_ms IS NOT NULL) AS due,
       (SELECT count(*) FROM (SELECT 1 FROM messages WHERE due_ms IS NOT NULL AND due_ms < deadline_ms LIMIT ?)) AS depth`,
    ),
    putMessage: statement(
      `INSERT INTO messages (${list(messageColumns)}) VALUES (${marks(messageColumns)})
       ON CONFLICT (verification_id, copy) DO UPDATE SET ${changed(messageColumns.slice(2))}`,
    ),
    tat: statement<{ tat_ms: number }>(`SELECT tat_ms FROM buckets WHERE bucket = ?`),
    putTat: statement(
      `INSERT INTO buckets (bucket, tat_ms, kid) VALUES (?, ?, ?)
       ON CONFLICT (bucket) DO UPDATE SET tat_ms = excluded.tat_ms, kid = excluded.kid`,
    ),
    deleteTat: statement(`DELETE FROM buckets WHERE bucket = ?`),
    phone: statement<PhoneRow>(`SELECT phone_index, wrong_codes, refunds FROM phones WHERE phone_index = ?`),
    putPhone: statement(`INSERT OR REPLACE INTO phones (phone_index, wrong_codes, refunds, kid) VALUES (?, ?, ?, ?)`),
    deletePhone: statement(`DELETE FROM phones WHERE phone_index = ?`),
    prefix: statement<prefixes.PrefixRow>(
      `SELECT ${list(prefixes.prefixColumns)} FROM prefixes WHERE tenant = ? AND prefix = ?`,
    ),
    putPrefix: statement(
      `INSERT OR REPLACE INTO prefixes (${list(prefixes.prefixColumns)}) VALUES (${marks(prefixes.prefixColumns)})`,
    ),
    deletePrefix: statement(`DELETE FROM prefixes WHERE tenant = ? AND prefix = ?`),
    prefixesFrom: statement<prefixes.PrefixRow>(
      `SELECT ${list(prefixes.prefixColumns)} FROM prefixes WHERE (tenant, prefix) > (?, ?) ORDER BY tenant, prefix LIMIT ?`,
    ),
    prefixDecisions: statement<prefixes.DecisionRow>(
      `SELECT ${list(prefixes.decisionColumns)} FROM prefix_decisions WHERE tenant = ? AND prefix = ? ORDER BY id DESC LIMIT ?`,
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
    deletePrefixDecision: statement(`DELETE FROM prefix_decisions WHERE id = ?`),
    recordsNamed,
    putRecord: statement(
      `INSERT OR REPLACE INTO idempotency (slot, kid, fingerprint, verification_id, answer, busy_until_ms, expire_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    deleteRecord: statement(`DELETE FROM idempotency WHERE slot = ?`),
    // One row a minute and tenant. What a read costs is in its ten rows, what a write costs in its one page.
    guesses: statement<Guesses>(
      `SELECT coalesce(sum(wrong_codes), 0) AS wrong, coalesce(sum(right_codes), 0) AS right
       FROM guesses WHERE tenant = ? AND minute >= ?`,
    ),
    guessesOfAll: statement<Guesses & { tenant: string }>(
      `SELECT tenant, sum(wrong_codes) AS wrong, sum(right_codes) AS right FROM guesses WHERE minute >= ? GROUP BY tenant`,
    ),
    countWrongCode: statement(
      `INSERT INTO guesses (tenant, minute, wrong_codes, right_codes) VALUES (?, ?, 1, 0)
       ON CONFLICT (tenant, minute) DO UPDATE SET wrong_codes = wrong_codes + 1`,
    ),
    countRightCode: statement(
      `INSERT INTO guesses (tenant, minute, wrong_codes, right_codes) VALUES (?, ?, 0, 1)
       ON CONFLICT (tenant, minute) DO UPDATE SET right_codes = right_codes + 1`,
    ),
    oldGuesses: statement<{ tenant: string; minute: number }>(
      `SELECT tenant, minute FROM guesses WHERE minute < ? LIMIT ?`,
    ),
    deleteGuesses: statement(`DELETE FROM guesses WHERE tenant = ? AND minute = ?`),
    lapsed: statement<{ id: Uint8Array }>(
      `SELECT id FROM verifications WHERE end_ms IS NULL AND expire_ms <= ? ORDER BY expire_ms LIMIT ?`,
    ),
    outlived: statement<{ id: Uint8Array }>(
      `SELECT id FROM verifications WHERE end_ms IS NOT NULL AND end_ms <= ? ORDER BY end_ms LIMIT ?`,
    ),
    deleteMessages: statement(`DELETE FROM messages WHERE verification_id = ?`),
    deleteVerification: statement(`DELETE FROM verifications WHERE id = ?`),
    bucketsFrom: statement<{ bucket: Uint8Array; tat_ms: number }>(
      `SELECT bucket, tat_ms FROM buckets WHERE bucket > ? ORDER BY bucket LIMIT ?`,
    ),
    phonesFrom: statement<PhoneRow>(
      `SELECT phone_index, wrong_codes, refunds FROM phones WHERE phone_index > ? ORDER BY phone_index LIMIT ?`,
    ),
    recordsFrom: statement<{ slot: Uint8Array; expire_ms: number }>(
      `SELECT slot, expire_ms FROM idempotency WHERE slot > ? ORDER BY slot LIMIT ?`,
    ),
    apiKey: statement<ApiKeyRow>(
      `SELECT id, kind, tenant, name, scopes, origins, is_app, digest, create_ms, expire_ms, revoke_ms, last_use_ms FROM api_keys WHERE id = ?`,
    ),
    apiKeys: statement<ApiKeyRow>(
      `SELECT id, kind, tenant, name, scopes, origins, is_app, digest, create_ms, expire_ms, revoke_ms, last_use_ms FROM api_keys
       ORDER BY create_ms, id`,
    ),
    insertApiKey: statement(
      `INSERT INTO api_keys (id, kind, tenant, name, scopes, origins, is_app, digest, create_ms, expire_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    listsOrigin: statement(`SELECT 1 FROM key_origins WHERE origin = ? AND end_ms > ? LIMIT 1`),
    insertKeyOrigin: statement(`INSERT OR IGNORE INTO key_origins (origin, end_ms, key_id) VALUES (?, ?, ?)`),
    deleteKeyOrigin: statement(`DELETE FROM key_origins WHERE origin = ? AND end_ms = ? AND key_id = ?`),
    revokeApiKey: statement(`UPDATE api_keys SET revoke_ms = coalesce(revoke_ms, ?) WHERE id = ?`),
    touchApiKey: statement(`UPDATE api_keys SET last_use_ms = ? WHERE id = ?`),
    tenant: statement<TenantRow>(`SELECT ${list(tenantColumns)} FROM tenants WHERE id = ?`),
    tenantsAfter: statement<TenantRow>(
      `SELECT ${list(tenantColumns)} FROM tenants WHERE revision > ? ORDER BY revision, id`,
    ),
    tenantsRevision: statement<{ revision: number | null }>(`SELECT max(revision) AS revision FROM tenants`),
    tenantCount: statement<{ count: number }>(`SELECT count(*) AS count FROM tenants`),
    putTenant: statement(
      `INSERT INTO tenants (id, create_ms, settings, disable_ms, revision)
       VALUES (?, ?, ?, ?, (SELECT coalesce(max(revision), 0) + 1 FROM tenants))
       ON CONFLICT (id) DO UPDATE SET settings = excluded.settings, disable_ms = excluded.disable_ms, revision = excluded.revision`,
    ),
    anyDestination: statement(`SELECT 1 FROM destinations WHERE tenant = ? LIMIT 1`),
    longestDestination: statement<DestinationRow>(
      `SELECT tenant, prefix, verdict, note, create_ms FROM destinations
       WHERE tenant = ? AND prefix IN (${marks(Array.from({ length: prefixDigitsMax }, String))})
       ORDER BY length(prefix) DESC LIMIT 1`,
    ),
    destinations: statement<DestinationRow>(
      `SELECT tenant, prefix, verdict, note, create_ms FROM destinations WHERE tenant = ? ORDER BY prefix`,
    ),
    // Nothing is added for a tenant that there is not.
    putDestination: statement(
      `INSERT INTO destinations (tenant, prefix, verdict, note, create_ms)
       SELECT id, ?, ?, ?, ? FROM tenants WHERE id = ?
       ON CONFLICT (tenant, prefix) DO UPDATE
       SET verdict = excluded.verdict, note = excluded.note, create_ms = excluded.create_ms`,
    ),
    deleteDestination: statement(`DELETE FROM destinations WHERE tenant = ? AND prefix = ?`),
    daily: statement<DailyRow>(
      `SELECT day, count, warned, warned_cap FROM daily_messages WHERE tenant = ? AND day = ?`,
    ),
    putDaily: statement(
      `INSERT INTO daily_messages (tenant, day, count, warned, warned_cap) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (tenant, day) DO UPDATE
       SET count = excluded.count, warned = excluded.warned, warned_cap = excluded.warned_cap`,
    ),
    deleteDays: statement(`DELETE FROM daily_messages WHERE day < ?`),
    endpoint: statement<events.EndpointRow>(
      `SELECT ${list(events.endpointColumns)} FROM webhook_endpoints WHERE id = ?`,
    ),
    // Neither it nor its tenant is disabled.
    enabledEndpoint: statement<events.EndpointRow>(
      `SELECT ${list(events.endpointColumns)} FROM webhook_endpoints AS e WHERE id = ? AND disable_ms IS NULL
       AND EXISTS (SELECT 1 FROM tenants AS t WHERE t.id = e.tenant AND t.disable_ms IS NULL)`,
    ),
    endpoints: statement<events.EndpointRow & { waiting: number }>(
      `SELECT ${list(events.endpointColumns)}, (SELECT count(*) FROM events WHERE endpoint_id = e.id) AS waiting
       FROM webhook_endpoints AS e ORDER BY create_ms, id`,
    ),
    endpointCount: statement<{ count: number }>(`SELECT count(*) AS count FROM webhook_endpoints WHERE tenant = ?`),
    anyEndpoint: statement(`SELECT 1 FROM webhook_endpoints WHERE disable_ms IS NULL LIMIT 1`),
    putEndpoint: statement(
      `INSERT OR REPLACE INTO webhook_endpoints (${list(events.endpointColumns)}) VALUES (${marks(events.endpointColumns)})`,
    ),
    deleteEndpoint: statement(`DELETE FROM webhook_endpoints WHERE id = ?`),
    reviseTenant: statement(`UPDATE tenants SET revision = (SELECT max(revision) + 1 FROM tenants) WHERE id = ?`),
    // What is known by its id already is the same event.
    insertEvent: statement(
      `INSERT INTO events (${list(events.eventColumns)}, due_ms, tries, endpoint_id)
       SELECT ${marks(events.eventColumns)}, ?, 0, e.id FROM webhook_endpoints AS e
       WHERE e.tenant = ? AND e.disable_ms IS NULL AND (e.types = '' OR instr(' ' || e.types || ' ', ' ' || ? || ' ') > 0)
       ON CONFLICT (endpoint_id, id) DO NOTHING`,
    ),
    // From one endpoint that something waits for to the next, so that a long backlog costs no more than a short one.
    dueEvents: statement<events.EventRow>(
      `WITH RECURSIVE waiting (id) AS (
         SELECT min(endpoint_id) FROM events
         UNION ALL SELECT (SELECT min(endpoint_id) FROM events WHERE endpoint_id > w.id) FROM waiting AS w
         WHERE w.id IS NOT NULL
       )
       SELECT events.* FROM waiting AS w CROSS JOIN events ON events.rowid IN (
         SELECT rowid FROM events AS e WHERE e.endpoint_id = w.id AND e.due_ms <= ? ORDER BY e.due_ms LIMIT ?
       ) WHERE w.id NOT IN (SELECT value FROM json_each(?)) ORDER BY events.due_ms LIMIT ?`,
    ),
    eventDue: statement<{ due_ms: number }>(`SELECT due_ms FROM events WHERE endpoint_id = ? AND id = ?`),
    putEventDue: statement(`UPDATE events SET tries = ?, due_ms = ? WHERE endpoint_id = ? AND id = ?`),
    nextEventDue: statement<{ due: number | null }>(`SELECT min(due_ms) AS due FROM events`),
    eventCount: statement<{ count: number }>(`SELECT count(*) AS count FROM (SELECT 1 FROM events LIMIT ?)`),
    deleteEvent: statement(`DELETE FROM events WHERE endpoint_id = ? AND id = ?`),
    deleteEventsOf: statement(`DELETE FROM events WHERE endpoint_id = ?`),
    longBacklogs: statement<{ endpoint_id: string; waiting: number }>(
      `SELECT endpoint_id, count(*) AS waiting FROM events GROUP BY endpoint_id HAVING count(*) > ?`,
    ),
    deleteOldestEvents: statement(
      `DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE endpoint_id = ? ORDER BY create_ms LIMIT ?)`,
    ),
    dataVersion: statement<{ data_version: number }>(`PRAGMA data_version`),
    clock: statement<{ now_ms: number }>(`SELECT now_ms FROM clock WHERE id = 1`),
    noteClock: statement(`UPDATE clock SET now_ms = ? WHERE id = 1`),
    masterKeys: statement<{ kid: number; key_check: Uint8Array }>(`SELECT kid, key_check FROM master_keys`),
    // Rows from before they bore a key's id may be any key's.
    usesMasterKey: statement(
      `SELECT 1 WHERE EXISTS (SELECT 1 FROM verifications WHERE kid = @kid)
       OR EXISTS (SELECT 1 FROM phones WHERE kid = @kid OR kid IS NULL)
       OR EXISTS (SELECT 1 FROM buckets WHERE (kid = @kid OR kid IS NULL) AND tat_ms > @now)
       OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE kid = @kid) OR EXISTS (SELECT 1 FROM events WHERE kid = @kid)`,
    ),
    putMasterKey: statement(`INSERT OR IGNORE INTO master_keys (kid, key_check, create_ms) VALUES (?, ?, ?)`),
    deleteMasterKey: statement(`DELETE FROM master_keys WHERE kid = ?`),
  };
}
