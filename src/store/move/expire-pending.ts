/**
 * Ends everything that is pending in a database that was put back to an earlier moment: a code that was used after that
 * moment is pending in it, and would work a second time. What counts against callers stays: limits, wrong codes,
 * attempts.
 *
 * What is ended so does not count in the pumping guard: these codes were not typed because they were taken away.
 */
import type { Database } from "better-sqlite3";
import { Client } from "pg";
import type { Instant } from "../../system.ts";
import { connectionSettings } from "../postgres/pool.ts";
import { servingLock } from "../postgres/watch.ts";
import { deliveryNumber } from "../rows/message.ts";
import { stateNumber } from "../rows/verification.ts";

/** How much was ended. */
export interface Expired {
  /** Verifications that were PENDING. */
  readonly verifications: number;
  /** Messages that are not sent, or not settled, any more. */
  readonly messages: number;
}

const unsent = `(${deliveryNumber("QUEUED")}, ${deliveryNumber("SENDING")})`;
const givenUp = `delivery = CASE WHEN delivery IN ${unsent} THEN ${deliveryNumber("EXPIRED")} ELSE delivery END`;

/** The same on both databases. `now` is an SQL expression. */
const statements = (now: string) => ({
  verifications: `UPDATE verifications SET state = ${stateNumber("EXPIRED")}, salt = NULL, ${givenUp},
    end_ms = CASE WHEN expire_ms < ${now} THEN expire_ms ELSE ${now} END WHERE end_ms IS NULL`,
  // A call under way may have been answered after the moment: it counts as sent or not, nobody knows.
  messages: `UPDATE messages SET due_ms = NULL, ${givenUp},
    maybe_sent = CASE WHEN delivery IN ${unsent} AND calls > failures THEN 1 ELSE maybe_sent END
    WHERE due_ms IS NOT NULL`,
});

/** Ends all that is pending in an open SQLite database, in one transaction. Safe to repeat. */
export function expirePending(db: Database, now: Instant): Expired {
  const sql = statements("@now");
  return db.transaction(() => ({
    verifications: db.prepare(sql.verifications).run({ now }).changes,
    messages: db.prepare(sql.messages).run().changes,
  }))();
}

const connectTimeoutMs = 5_000;

/**
 * Ends all that is pending in a PostgreSQL database, in one transaction and by its own clock. Safe to repeat. Rejects while
 * an instance serves: what it has in hand would be sent all the same.
 */
export async function expirePendingOnPostgres(url: string): Promise<Expired> {
  const sql = statements("(SELECT (extract(epoch FROM now()) * 1000)::bigint)");
  const client = new Client({ ...connectionSettings(url), connectionTimeoutMillis: connectTimeoutMs });
  // What is under way fails by itself. Unheard, the event would end the process.
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("BEGIN");
    const { rows } = await client.query<{ unserved: boolean }>(
      `SELECT pg_try_advisory_xact_lock(${servingLock}) AS unserved`,
    );
    if (rows[0]?.unserved !== true) throw new Error("an instance serves on this database: stop all of them first");
    const { rowCount: verifications } = await client.query(sql.verifications);
    const { rowCount: messages } = await client.query(sql.messages);
    await client.query("COMMIT");
    return { verifications: verifications ?? 0, messages: messages ?? 0 };
  } finally {
    await client.end();
  }
}
