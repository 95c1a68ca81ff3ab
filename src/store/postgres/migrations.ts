/**
 * The schema on PostgreSQL, as an append-only list. It says the same as the one for SQLite (sqlite/migrations.ts), and
 * begins with the schema that SQLite had when PostgreSQL came.
 *
 * Instances of two versions share a database while one takes the other's place, and each of the older ones may be started
 * again meanwhile. So every migration is one of two kinds:
 *
 * - An expansion adds what the version before can do without: a table, an index, a column with a default or without NOT
 *   NULL. It changes no meaning: a new value in an old column is for the version after the one that can read it. Every
 *   version that was there goes on.
 * - A contraction takes away what is unused by every version that knows at least `least` migrations. Older ones are refused
 *   from then on, so it comes a version later than the one that could do without.
 *
 * It runs in one transaction while others serve: what locks a table that they write has 4 s to get its lock.
 */
import type { Connections, Transaction } from "./connections.ts";

export interface PostgresMigration {
  readonly name: string;
  readonly statements: readonly string[];
  /** Only of a contraction: how many migrations a program has to know from now on. */
  readonly least?: number;
}

export const postgresMigrations: readonly PostgresMigration[] = [
  {
    name: "0001-first",
    statements: [
      `CREATE TABLE master_keys (
        kid bigint PRIMARY KEY,
        key_check bytea NOT NULL,
        create_ms bigint NOT NULL
      )`,
      `CREATE TABLE tenants (
        id text PRIMARY KEY,
        create_ms bigint NOT NULL,
        settings text NOT NULL DEFAULT '{}',
        disable_ms bigint,
        revision bigint NOT NULL DEFAULT 0
      )`,
      `CREATE INDEX tenants_revision ON tenants (revision)`,
      `INSERT INTO tenants VALUES ('default', 0)`,
      `CREATE TABLE api_keys (
        id text PRIMARY KEY,
        kind text NOT NULL,
        tenant text NOT NULL REFERENCES tenants (id),
        name text NOT NULL,
        scopes text NOT NULL,
        origins text NOT NULL,
        is_app smallint NOT NULL,
        digest bytea NOT NULL,
        create_ms bigint NOT NULL,
        expire_ms bigint,
        revoke_ms bigint,
        last_use_ms bigint
      )`,
      // Every preflight asks whether any active key lists its origin: one seek here, however many keys there are.
      `CREATE TABLE key_origins (
        origin text NOT NULL,
        end_ms bigint NOT NULL,
        key_id text NOT NULL,
        PRIMARY KEY (origin, end_ms, key_id)
      )`,
      `CREATE INDEX key_origins_key ON key_origins (key_id)`,
      `CREATE TABLE verifications (
        id bytea PRIMARY KEY,
        tenant text NOT NULL,
        key_id text NOT NULL,
        kid bigint NOT NULL,
        salt bytea,
        phone_index bytea NOT NULL,
        phone_box bytea NOT NULL,
        region text NOT NULL,
        locale text,
        purpose text,
        bind text,
        web_origin text,
        app_hash text,
        known_user smallint NOT NULL,
        tally smallint NOT NULL,
        state smallint NOT NULL,
        delivery smallint NOT NULL,
        digits smallint NOT NULL,
        attempts smallint NOT NULL,
        attempts_max smallint NOT NULL,
        resends smallint NOT NULL,
        next_resend_ms bigint NOT NULL,
        create_ms bigint NOT NULL,
        expire_ms bigint NOT NULL,
        end_ms bigint
      ) WITH (fillfactor = 80)`,
      // What a sweep looks for: pending ones by the end of their life, terminal ones by the end they came to.
      `CREATE INDEX verifications_pending ON verifications (expire_ms) WHERE end_ms IS NULL`,
      `CREATE INDEX verifications_ended ON verifications (end_ms) WHERE end_ms IS NOT NULL`,
      `CREATE INDEX verifications_phone ON verifications (phone_index, create_ms)`,
      `CREATE TABLE messages (
        verification_id bytea NOT NULL,
        copy smallint NOT NULL,
        delivery smallint NOT NULL,
        calls smallint NOT NULL,
        failures smallint NOT NULL,
        maybe_sent smallint NOT NULL,
        recipient_refused smallint NOT NULL,
        provider_index smallint NOT NULL,
        due_ms bigint,
        deadline_ms bigint NOT NULL,
        provider text,
        provider_message_id text,
        detail text,
        place_day bigint,
        PRIMARY KEY (verification_id, copy)
      )`,
      `CREATE INDEX messages_due ON messages (due_ms) WHERE due_ms IS NOT NULL`,
      // A `kid` that is not known came from SQLite, where rows did not always bear one.
      `CREATE TABLE buckets (
        bucket bytea PRIMARY KEY,
        tat_ms bigint NOT NULL,
        kid bigint
      )`,
      `CREATE TABLE phones (
        phone_index bytea PRIMARY KEY,
        wrong_codes text NOT NULL,
        refunds text NOT NULL,
        kid bigint
      )`,
      `CREATE TABLE destinations (
        tenant text NOT NULL REFERENCES tenants (id),
        prefix text COLLATE "C" NOT NULL,
        verdict text NOT NULL CHECK (verdict IN ('block', 'allow')),
        note text NOT NULL,
        create_ms bigint NOT NULL,
        PRIMARY KEY (tenant, prefix)
      )`,
      `CREATE TABLE daily_messages (
        tenant text NOT NULL,
        day bigint NOT NULL,
        count bigint NOT NULL,
        warned smallint NOT NULL,
        PRIMARY KEY (tenant, day)
      )`,
      `CREATE TABLE guesses (
        tenant text NOT NULL,
        minute bigint NOT NULL,
        wrong_codes bigint NOT NULL,
        right_codes bigint NOT NULL,
        PRIMARY KEY (tenant, minute)
      )`,
      `CREATE INDEX guesses_minute ON guesses (minute)`,
      `CREATE TABLE prefixes (
        tenant text NOT NULL,
        prefix text NOT NULL,
        phase smallint NOT NULL,
        sent bigint NOT NULL,
        matured bigint NOT NULL,
        verified bigint NOT NULL,
        beyond_sent bigint NOT NULL,
        beyond_verified bigint NOT NULL,
        proven smallint NOT NULL,
        trips bigint NOT NULL,
        since_ms bigint NOT NULL,
        until_ms bigint NOT NULL,
        tat_ms bigint NOT NULL,
        last_ms bigint NOT NULL,
        refused bigint NOT NULL,
        refused_first_ms bigint NOT NULL,
        refused_last_ms bigint NOT NULL,
        PRIMARY KEY (tenant, prefix)
      )`,
      `CREATE TABLE prefix_decisions (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant text NOT NULL,
        prefix text NOT NULL,
        kind smallint NOT NULL,
        at_ms bigint NOT NULL,
        matured bigint NOT NULL,
        verified bigint NOT NULL,
        refused bigint NOT NULL,
        until_ms bigint,
        enforced smallint NOT NULL
      )`,
      `CREATE INDEX prefix_decisions_prefix ON prefix_decisions (tenant, prefix, id)`,
      `CREATE INDEX prefix_decisions_at ON prefix_decisions (at_ms)`,
      `CREATE TABLE idempotency (
        slot bytea PRIMARY KEY,
        kid bigint NOT NULL,
        fingerprint bytea NOT NULL,
        verification_id bytea NOT NULL,
        answer text,
        busy_until_ms bigint NOT NULL,
        expire_ms bigint NOT NULL
      )`,
      `CREATE TABLE webhook_endpoints (
        id text PRIMARY KEY,
        tenant text NOT NULL REFERENCES tenants (id),
        url text NOT NULL,
        types text NOT NULL,
        show_phones smallint NOT NULL,
        kid bigint NOT NULL,
        secrets text NOT NULL,
        create_ms bigint NOT NULL,
        disable_ms bigint,
        why text,
        failing_since_ms bigint
      )`,
      `CREATE INDEX webhook_endpoints_tenant ON webhook_endpoints (tenant)`,
      `CREATE TABLE events (
        endpoint_id text NOT NULL,
        id text NOT NULL,
        tenant text NOT NULL,
        type text NOT NULL,
        create_ms bigint NOT NULL,
        facts text NOT NULL,
        kid bigint,
        phone_box bytea,
        tries smallint NOT NULL,
        due_ms bigint NOT NULL,
        PRIMARY KEY (endpoint_id, id)
      )`,
      `CREATE INDEX events_due ON events (due_ms)`,
      `CREATE INDEX events_endpoint_due ON events (endpoint_id, due_ms)`,
    ],
  },
  {
    name: "0002-warned-cap",
    statements: [`ALTER TABLE daily_messages ADD COLUMN warned_cap bigint NOT NULL DEFAULT 0`],
  },
  {
    name: "0003-channel",
    // How a verification was asked for and a message travels: by SMS, whatever a version before this one writes.
    statements: [
      `ALTER TABLE verifications ADD COLUMN channel smallint NOT NULL DEFAULT 0`,
      `ALTER TABLE messages ADD COLUMN channel smallint NOT NULL DEFAULT 0`,
    ],
  },
  {
    name: "0004-log",
    // What happened to a verification (rows/log.ts); NULL in rows that an earlier version writes.
    statements: [`ALTER TABLE verifications ADD COLUMN log bytea`],
  },
  {
    name: "0005-counters",
    // What is counted of a tenant's day, each kind by itself and in whole numbers. A version before this one reads and writes
    // the messages in `daily_messages`, under the same lock. The two tables follow each other until that one goes.
    statements: [
      `LOCK TABLE daily_messages IN SHARE ROW EXCLUSIVE MODE`,
      `CREATE TABLE counters (
        tenant text NOT NULL,
        day bigint NOT NULL,
        kind text NOT NULL,
        count bigint NOT NULL,
        warned smallint NOT NULL,
        warned_cap bigint NOT NULL,
        PRIMARY KEY (tenant, day, kind)
      )`,
      `INSERT INTO counters SELECT tenant, day, 'messages', count, warned, warned_cap FROM daily_messages`,
      `CREATE FUNCTION follow_daily_messages() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
        INSERT INTO counters VALUES (NEW.tenant, NEW.day, 'messages', NEW.count, NEW.warned, NEW.warned_cap)
        ON CONFLICT (tenant, day, kind) DO UPDATE
        SET count = excluded.count, warned = excluded.warned, warned_cap = excluded.warned_cap;
        RETURN NULL;
      END $$`,
      `CREATE FUNCTION follow_counters() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
        IF TG_OP = 'DELETE' THEN
          DELETE FROM daily_messages WHERE tenant = OLD.tenant AND day = OLD.day;
          RETURN NULL;
        END IF;
        INSERT INTO daily_messages (tenant, day, count, warned, warned_cap)
        VALUES (NEW.tenant, NEW.day, NEW.count, NEW.warned, NEW.warned_cap)
        ON CONFLICT (tenant, day) DO UPDATE
        SET count = excluded.count, warned = excluded.warned, warned_cap = excluded.warned_cap;
        RETURN NULL;
      END $$`,
      `CREATE TRIGGER follow_daily_messages AFTER INSERT OR UPDATE ON daily_messages FOR EACH ROW
        WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION follow_daily_messages()`,
      `CREATE TRIGGER follow_counters AFTER INSERT OR UPDATE ON counters FOR EACH ROW
        WHEN (NEW.kind = 'messages' AND pg_trigger_depth() = 0) EXECUTE FUNCTION follow_counters()`,
      `CREATE TRIGGER follow_counters_away AFTER DELETE ON counters FOR EACH ROW
        WHEN (OLD.kind = 'messages') EXECUTE FUNCTION follow_counters()`,
    ],
  },
  {
    name: "0006-lots",
    // What instances have taken of a counter in advance: it is in the count, and unused so far.
    statements: [
      `CREATE TABLE counter_lots (
        tenant text NOT NULL,
        day bigint NOT NULL,
        kind text NOT NULL,
        holder text NOT NULL,
        units bigint NOT NULL CONSTRAINT counter_lots_units CHECK (units >= 0),
        PRIMARY KEY (tenant, day, kind, holder)
      ) WITH (fillfactor = 50)`,
    ],
  },
];

/** Any number will do, as long as every version takes the same. */
const migrationLock = 7_087_411_352;
/** Behind a migration that waits for a table, all calls wait for it. */
const tableWaitMs = 4_000;

/** What a database says of itself: the migrations it has seen, and how many a program has to know to use it. */
interface Version {
  readonly version: number;
  readonly least: number;
}

/**
 * Runs the migrations that this database has not seen. Instances that start together wait for one another, for as long as
 * a migration takes, so `connections` are patient ones. Leaves a database alone that has seen more, and rejects where that
 * took away what this program needs.
 */
export async function migratePostgres(
  connections: Connections,
  list: readonly PostgresMigration[] = postgresMigrations,
): Promise<void> {
  if (isUpToDate(await versionOf(connections), list)) return;
  await connections.transact(async (transaction) => {
    await transaction.query({ name: "migration-lock", text: `SELECT pg_advisory_xact_lock($1::bigint)` }, [
      migrationLock,
    ]);
    await run(transaction, `SET LOCAL lock_timeout = ${tableWaitMs}`);
    await run(transaction, `CREATE TABLE IF NOT EXISTS schema_version (version int NOT NULL, least int NOT NULL)`);
    const [found = { version: 0, least: 0 }] = await transaction.query<Version>(readVersion, []);
    if (isUpToDate(found, list)) return;
    for (const migration of list.slice(found.version)) {
      try {
        for (const statement of migration.statements) await run(transaction, statement);
      } catch (error) {
        throw new Error(`migration ${migration.name} failed and was taken back`, { cause: error });
      }
    }
    const least = Math.max(found.least, ...list.map((migration) => migration.least ?? 0));
    await run(transaction, `DELETE FROM schema_version`);
    await run(transaction, `INSERT INTO schema_version (version, least) VALUES (${list.length}, ${least})`);
  });
}

/** Whether there is nothing to do. Throws where a newer version has left this one behind. */
function isUpToDate({ version, least }: Version, list: readonly PostgresMigration[]): boolean {
  if (least > list.length) throw new Error("the database was written by a newer version of otpd");
  return version >= list.length;
}

const readVersion = { name: "schema-version", text: `SELECT version, least FROM schema_version` };

async function versionOf(connections: Connections): Promise<Version> {
  const [found] = await connections.query<{ found: boolean }>(
    { name: "schema-found", text: `SELECT to_regclass('schema_version') IS NOT NULL AS found` },
    [],
  );
  const [row] = found?.found === true ? await connections.query<Version>(readVersion, []) : [];
  return row ?? { version: 0, least: 0 };
}

function run(transaction: Transaction, text: string): Promise<unknown> {
  return transaction.query({ name: "", text }, []);
}
