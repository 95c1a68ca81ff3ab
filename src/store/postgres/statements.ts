/**
 * The statements of a batch on PostgreSQL: each loads or writes all things of one kind. Its parameters are arrays, one
 * per column, so that a statement is the same whatever the size of the batch.
 */
import { eventColumns, isTold } from "../rows/event.ts";
import { auditColumns } from "../rows/audit.ts";
import { decisionColumns, decisionTypes, prefixColumns, prefixTypes } from "../rows/prefix.ts";
import { messageColumns, messageTypes } from "../rows/message.ts";
import { recordColumns, recordTypes } from "../rows/record.ts";
import { destinationColumns } from "../rows/tenant.ts";
import { changeTypes, changingColumns, verificationColumns, verificationTypes } from "../rows/verification.ts";
import { findingStatements } from "../acts/finding.ts";
import { addLateSums } from "../rows/sums.ts";
import { list, updates, valuesOf } from "../statement.ts";
import { readTogether, writeTogether } from "./combined.ts";
import type { Statement } from "./connections.ts";

/** Each row is sought by itself: the planner would go through the table for 2,000 of them, or through the order of all. */
export const finding = findingStatements(
  `SELECT create_ms, id FROM verifications WHERE (create_ms, id) < ($1, $2) AND create_ms >= $3
    ORDER BY create_ms DESC, id DESC LIMIT $4`,
  `CROSS JOIN LATERAL (SELECT * FROM verifications WHERE id = s.id OFFSET 0) AS v`,
);

const statement = (name: string, text: string): Statement => ({ name, text });

const unnest = (types: readonly string[]) => `unnest(${types.map((type, i) => `$${i + 1}::${type}[]`).join(", ")})`;
/** The same of one array of bytes, with the place of each from 1 on. */
const placed = (column: string) => `unnest($1::bytea[]) WITH ORDINALITY AS k (${column}, place)`;

/**
 * What belongs to the verifications and phones of a batch, once it is locked: one statement (load.ts). Each key is sought by
 * itself (`OFFSET 0` keeps the planner to that), so that the plan is good however much the tables have grown since it was made.
 */
const belongings = {
  clock: statement("clock", `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms`),
  prefixes: statement(
    "prefixes",
    `SELECT p.* FROM ${unnest(["text", "text"])} AS u (tenant, prefix) CROSS JOIN LATERAL (
       SELECT ${list(prefixColumns)} FROM prefixes WHERE tenant = u.tenant AND prefix = u.prefix OFFSET 0
     ) AS p`,
  ),
  guesses: statement(
    "guesses",
    `SELECT tenant, sum(wrong_codes)::bigint AS wrong, sum(right_codes)::bigint AS right FROM guesses
     WHERE tenant = ANY($1::text[]) AND minute >= $2 GROUP BY tenant`,
  ),
  /** For each number the longest entry that it begins with. */
  longestDestinations: statement(
    "longest-destinations",
    `SELECT u.number, d.* FROM ${unnest(["text", "text"])} AS u (tenant, number) CROSS JOIN LATERAL (
       SELECT ${list(destinationColumns)} FROM destinations WHERE tenant = u.tenant
         AND prefix = ANY(ARRAY(SELECT left(u.number, digits) FROM generate_series(2, length(u.number)) AS digits))
       ORDER BY length(prefix) DESC LIMIT 1
     ) AS d`,
  ),
  /** With what of each is in lots: of anyone's, and of a holder's own. */
  counters: statement(
    "counters",
    `SELECT c.* FROM ${unnest(["text", "bigint", "text", "text"])} AS u (tenant, day, kind, holder) CROSS JOIN LATERAL (
       SELECT tenant, day, kind, count, warned, warned_cap,
         (SELECT coalesce(sum(units), 0)::bigint FROM counter_lots AS l
          WHERE l.tenant = u.tenant AND l.day = u.day AND l.kind = u.kind) AS in_lots,
         (SELECT coalesce(sum(units), 0)::bigint FROM counter_lots AS l
          WHERE l.tenant = u.tenant AND l.day = u.day AND l.kind = u.kind AND l.holder = u.holder) AS in_hand
       FROM counters WHERE tenant = u.tenant AND day = u.day AND kind = u.kind OFFSET 0
     ) AS c`,
  ),
  tats: statement(
    "tats",
    `SELECT place, tat_ms FROM ${placed("sought")} CROSS JOIN LATERAL (
       SELECT tat_ms FROM buckets WHERE bucket = sought OFFSET 0
     ) AS b`,
  ),
  histories: statement(
    "histories",
    `SELECT place, wrong_codes, refunds FROM ${placed("sought")} CROSS JOIN LATERAL (
       SELECT wrong_codes, refunds FROM phones WHERE phone_index = sought OFFSET 0
     ) AS p`,
  ),
  openAttempts: statement(
    "open-attempts",
    `SELECT place, open FROM ${placed("sought")} CROSS JOIN LATERAL (
       SELECT sum(attempts_max - attempts)::bigint AS open FROM verifications
       WHERE phone_index = sought AND create_ms > $2 AND end_ms IS NULL AND expire_ms > $3
     ) AS v WHERE open > 0`,
  ),
};

/** What nearly every batch writes: one statement (`write`). */
const writes = {
  insertVerifications: statement(
    "insert-verifications",
    `INSERT INTO verifications (${list(verificationColumns)}) SELECT * FROM ${unnest(verificationTypes)}`,
  ),
  updateVerifications: statement(
    "update-verifications",
    `UPDATE verifications AS v SET ${changingColumns.map((column) => `${column} = u.${column}`).join(", ")}
     FROM ${unnest(changeTypes)} AS u (${list(changingColumns)}, id)
     WHERE v.id = u.id`,
  ),
  putMessages: statement(
    "put-messages",
    `INSERT INTO messages (${list(messageColumns)})
     SELECT * FROM ${unnest(messageTypes)}
     ON CONFLICT (verification_id, copy) DO UPDATE SET ${updates(messageColumns)}`,
  ),
  putTats: statement(
    "put-tats",
    `INSERT INTO buckets (bucket, tat_ms, kid) SELECT * FROM ${unnest(["bytea", "bigint", "bigint"])}
     ON CONFLICT (bucket) DO UPDATE SET ${updates(["tat_ms", "kid"])}`,
  ),
  putHistories: statement(
    "put-histories",
    `INSERT INTO phones (phone_index, wrong_codes, refunds, kid)
     SELECT * FROM ${unnest(["bytea", "text", "text", "bigint"])}
     ON CONFLICT (phone_index) DO UPDATE SET ${updates(["wrong_codes", "refunds", "kid"])}`,
  ),
  putPrefixes: statement(
    "put-prefixes",
    `INSERT INTO prefixes (${list(prefixColumns)}) SELECT * FROM ${unnest(prefixTypes)}
     ON CONFLICT (tenant, prefix) DO UPDATE SET ${updates(prefixColumns)}`,
  ),
  putCounters: statement(
    "put-counters",
    `INSERT INTO counters (tenant, day, kind, count, warned, warned_cap)
     SELECT * FROM ${unnest(["text", "bigint", "text", "bigint", "smallint", "bigint"])}
     ON CONFLICT (tenant, day, kind) DO UPDATE SET ${updates(["count", "warned", "warned_cap"])}`,
  ),
  putLots: statement(
    "put-lots",
    `INSERT INTO counter_lots (tenant, day, kind, holder, units)
     SELECT * FROM ${unnest(["text", "bigint", "text", "text", "bigint"])}
     ON CONFLICT (tenant, day, kind, holder) DO UPDATE SET units = excluded.units`,
  ),
  addGuesses: statement(
    "add-guesses",
    `INSERT INTO guesses (tenant, minute, wrong_codes, right_codes)
     SELECT * FROM ${unnest(["text", "bigint", "bigint", "bigint"])}
     ON CONFLICT (tenant, minute) DO UPDATE SET wrong_codes = guesses.wrong_codes + excluded.wrong_codes,
       right_codes = guesses.right_codes + excluded.right_codes`,
  ),
  /** Once for each endpoint that asks for it. What is known by its id already is the same event. */
  insertEvents: statement(
    "insert-events",
    `INSERT INTO events (${list(eventColumns)}, due_ms, tries, endpoint_id)
     SELECT u.*, 0, e.id FROM ${unnest(["text", "text", "text", "bigint", "text", "bigint", "bytea", "bigint"])}
       AS u (${list(eventColumns)}, due_ms)
     JOIN webhook_endpoints AS e ON e.tenant = u.tenant AND ${isTold("u.type")}
     ON CONFLICT (endpoint_id, id) DO NOTHING`,
  ),
  putRecords: statement(
    "put-records",
    `INSERT INTO idempotency (${list(recordColumns)})
     SELECT * FROM ${unnest(recordTypes)}
     ON CONFLICT (slot) DO UPDATE SET
       ${updates(recordColumns)}`,
  ),
};

export const statements = {
  // ---- locks and loads ----------------------------------------------------------------------------------------------
  clock: belongings.clock,
  longestDestinations: belongings.longestDestinations,
  belongings: readTogether("belongings", belongings),
  /** The places of those origins that a key lists at their times. */
  listedOrigins: statement(
    "listed-origins",
    `SELECT place FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS u (asked, now_ms, place)
     WHERE EXISTS (SELECT 1 FROM key_origins WHERE origin = u.asked AND end_ms > u.now_ms)`,
  ),
  /** Slots and phones may have no row yet, so they are locked by their first 64 bits, in ascending order. */
  lock: statement("lock", `SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key`),
  records: statement(
    "records",
    `SELECT ${list(recordColumns)} FROM idempotency
     WHERE slot = ANY($1::bytea[])`,
  ),
  /** A verification's row guards its messages too. */
  lockVerifications: statement(
    "lock-verifications",
    `SELECT ${list(verificationColumns)} FROM verifications WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE`,
  ),
  /** What records refer to: read only, so not locked. */
  verifications: statement(
    "verifications",
    `SELECT ${list(verificationColumns)} FROM verifications WHERE id = ANY($1::bytea[])`,
  ),
  messages: statement(
    "messages",
    `SELECT ${list(messageColumns)} FROM messages WHERE verification_id = ANY($1::bytea[])`,
  ),
  // ---- writes -------------------------------------------------------------------------------------------------------
  ...writes,
  writes: writeTogether("writes", writes),
  deleteTats: statement("delete-tats", `DELETE FROM buckets WHERE bucket = ANY($1::bytea[])`),
  deleteHistories: statement("delete-histories", `DELETE FROM phones WHERE phone_index = ANY($1::bytea[])`),
  deleteRecords: statement("delete-records", `DELETE FROM idempotency WHERE slot = ANY($1::bytea[])`),
  deleteGuesses: statement(
    "delete-guesses",
    `DELETE FROM guesses WHERE (tenant, minute) IN (SELECT tenant, minute FROM guesses WHERE minute < $1 LIMIT $2)
     RETURNING minute`,
  ),
  prefix: statement("prefix", `SELECT ${list(prefixColumns)} FROM prefixes WHERE tenant = $1 AND prefix = $2`),
  /** Takes back what is in lots, of whomever: whoever had one finds it empty. Tells how much it was. */
  emptyLots: statement(
    "empty-lots",
    `WITH held AS (
       SELECT holder, units FROM counter_lots WHERE tenant = $1 AND day = $2 AND kind = $3 AND units > 0
       ORDER BY holder FOR UPDATE
     ), emptied AS (
       UPDATE counter_lots AS l SET units = 0 FROM held
       WHERE l.tenant = $1 AND l.day = $2 AND l.kind = $3 AND l.holder = held.holder
     ) SELECT coalesce(sum(units), 0)::bigint AS units FROM held`,
  ),
  /**
   * Locks lots in the order in which they are given: a LATERAL one is sought row by row. What joins them to rows, as
   * `changeLots` does, takes them as the planner likes and the database's collation has them.
   */
  lockLots: statement(
    "lock-lots",
    `SELECT FROM ${unnest(["text", "bigint", "text", "text"])} AS u (tenant, day, kind, holder) CROSS JOIN LATERAL (
       SELECT FROM counter_lots WHERE tenant = u.tenant AND day = u.day AND kind = u.kind AND holder = u.holder FOR UPDATE
     ) AS l`,
  ),
  /** Fails where a lot has fewer units than are taken from it, or is not there: another has taken it back. */
  changeLots: statement(
    "change-lots",
    `MERGE INTO counter_lots AS l
     USING ${unnest(["text", "bigint", "text", "text", "bigint"])} AS u (tenant, day, kind, holder, more)
     ON l.tenant = u.tenant AND l.day = u.day AND l.kind = u.kind AND l.holder = u.holder
     WHEN MATCHED THEN UPDATE SET units = l.units + u.more
     WHEN NOT MATCHED THEN INSERT VALUES (u.tenant, u.day, u.kind, u.holder, u.more)`,
  ),
  deleteCounters: statement(
    "delete-counters",
    `WITH lots AS (DELETE FROM counter_lots WHERE day < $1) DELETE FROM counters WHERE day < $1`,
  ),
  prefixesFrom: statement(
    "prefixes-from",
    `SELECT ${list(prefixColumns)} FROM prefixes WHERE (tenant, prefix) > ($1, $2) ORDER BY tenant, prefix LIMIT $3`,
  ),
  /** Only as it was seen: a send may have come between the look and the deletion. */
  deletePrefixes: statement(
    "delete-prefixes",
    `DELETE FROM prefixes AS p USING ${unnest(["text", "text", "bigint"])} AS u (tenant, prefix, last_ms)
     WHERE p.tenant = u.tenant AND p.prefix = u.prefix AND p.last_ms = u.last_ms`,
  ),
  addAudit: statement(
    "add-audit-entry",
    `INSERT INTO audit (${list(auditColumns)}) VALUES (${valuesOf(auditColumns)})`,
  ),
  insertPrefixDecisions: statement(
    "insert-prefix-decisions",
    `INSERT INTO prefix_decisions (${list(decisionColumns)}) SELECT * FROM ${unnest(decisionTypes)}`,
  ),
  trimPrefixDecisions: statement(
    "trim-prefix-decisions",
    `DELETE FROM prefix_decisions WHERE id IN (
       SELECT id FROM (
         SELECT id, row_number() OVER (PARTITION BY tenant, prefix ORDER BY id DESC) AS place FROM prefix_decisions
         WHERE (tenant, prefix) IN (SELECT * FROM ${unnest(["text", "text"])})
       ) AS placed WHERE place > $3
     )`,
  ),
  outlivedPrefixDecisions: statement(
    "outlived-prefix-decisions",
    `DELETE FROM prefix_decisions WHERE id IN (
       SELECT id FROM prefix_decisions WHERE at_ms <= $1 ORDER BY at_ms LIMIT $2
     ) RETURNING id`,
  ),
  outlivedAudit: statement(
    "outlived-audit",
    `DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at_ms < $1 ORDER BY at_ms LIMIT $2) RETURNING id`,
  ),
  addLateSums: addLateSums("FOR UPDATE"),
  // ---- by themselves ------------------------------------------------------------------------------------------------
  nudge: statement("nudge", `SELECT pg_notify($1, $2)`),
  /** Those whose verification another has locked are in its hand, and are passed over. */
  messagesOf: statement(
    "messages-of",
    `SELECT ${list(messageColumns)} FROM messages WHERE verification_id = $1 ORDER BY copy`,
  ),
  dueMessages: statement(
    "due-messages",
    `SELECT m.verification_id, m.copy FROM messages AS m JOIN verifications AS v ON v.id = m.verification_id
     WHERE m.due_ms <= $1 ORDER BY m.due_ms LIMIT $2 FOR UPDATE OF v SKIP LOCKED`,
  ),
  dueFallbacks: statement(
    "due-fallbacks",
    `SELECT id FROM verifications WHERE fallback_ms <= $1 ORDER BY fallback_ms LIMIT $2 FOR UPDATE SKIP LOCKED`,
  ),
  outlived: statement(
    "outlived",
    `DELETE FROM verifications WHERE id IN (
       SELECT id FROM verifications WHERE end_ms IS NOT NULL AND end_ms <= $1 ORDER BY end_ms LIMIT $2
       FOR UPDATE SKIP LOCKED
     ) RETURNING id`,
  ),
  /**
   * It goes from one endpoint with waiting events to the next, so that a long backlog costs no more than a short one.
   * Another instance may look at the same moment: what that has locked is passed over, and what that has claimed is not
   * due.
   */
  dueEvents: statement(
    "due-events",
    `WITH RECURSIVE waiting (id) AS (
       SELECT min(endpoint_id) FROM events
       UNION ALL SELECT (SELECT min(endpoint_id) FROM events WHERE endpoint_id > w.id) FROM waiting AS w
       WHERE w.id IS NOT NULL
     )
     SELECT d.* FROM waiting AS w CROSS JOIN LATERAL (
       SELECT * FROM events WHERE endpoint_id = w.id AND due_ms <= $1 ORDER BY due_ms LIMIT $2 FOR UPDATE SKIP LOCKED
     ) AS d WHERE w.id NOT IN (SELECT value FROM json_array_elements_text($3::json) AS busy (value))
     ORDER BY d.due_ms LIMIT $4`,
  ),
  deleteMessages: statement("delete-messages", `DELETE FROM messages WHERE verification_id = ANY($1::bytea[])`),
  eraseVerifications: statement("erase-verifications", `DELETE FROM verifications WHERE id = ANY($1::bytea[])`),
  bucketsFrom: statement(
    "buckets-from",
    `SELECT bucket, tat_ms FROM buckets WHERE bucket > $1 ORDER BY bucket LIMIT $2`,
  ),
  deleteFullTats: statement("delete-full-tats", `DELETE FROM buckets WHERE bucket = ANY($1::bytea[]) AND tat_ms <= $2`),
  phonesFrom: statement(
    "phones-from",
    `SELECT phone_index, wrong_codes, refunds FROM phones WHERE phone_index > $1 ORDER BY phone_index LIMIT $2`,
  ),
  /** Only as it was seen: a wrong code may have come between the look and the deletion. */
  deleteForgottenHistories: statement(
    "delete-forgotten-histories",
    `DELETE FROM phones AS p USING ${unnest(["bytea", "text", "text"])} AS u (phone_index, wrong_codes, refunds)
     WHERE p.phone_index = u.phone_index AND p.wrong_codes = u.wrong_codes AND p.refunds = u.refunds`,
  ),
  staleRecords: statement(
    "stale-records",
    `SELECT slot, expire_ms FROM idempotency WHERE slot > $1 ORDER BY slot LIMIT $2`,
  ),
  deleteStaleRecords: statement(
    "delete-stale-records",
    `DELETE FROM idempotency WHERE slot = ANY($1::bytea[]) AND expire_ms <= $2`,
  ),
};
