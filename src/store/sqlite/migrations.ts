/**
 * The schema, as an append-only list: an entry that was released is never changed, and what comes later is added at the
 * end. Each entry runs in a transaction of its own together with the note that it ran.
 *
 * Times are `*_ms`, whole milliseconds since the Unix epoch. Enumerations are stored as small numbers (rows/).
 * Tables are clustered on their keys (WITHOUT ROWID): a row and its key are stored once, and a pending verification
 * takes well under 600 bytes with all its rows and indexes.
 */
export interface Migration {
  readonly name: string;
  readonly sqlite: string;
}

export const migrations: readonly Migration[] = [
  {
    name: "0001-first",
    sqlite: `
      -- Master keys that rows were written with. A start with a wrong or missing key is refused.
      CREATE TABLE master_keys (
        kid INTEGER PRIMARY KEY,
        key_check BLOB NOT NULL,
        create_ms INTEGER NOT NULL
      );

      -- The latest time the server saw, so that time does not run backwards across a restart.
      CREATE TABLE clock (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        now_ms INTEGER NOT NULL
      );
      INSERT INTO clock VALUES (1, 0);

      CREATE TABLE tenants (
        id TEXT PRIMARY KEY,
        create_ms INTEGER NOT NULL
      ) WITHOUT ROWID;
      INSERT INTO tenants VALUES ('default', 0);

      CREATE TABLE api_keys (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        tenant TEXT NOT NULL REFERENCES tenants (id),
        name TEXT NOT NULL,
        scopes TEXT NOT NULL,
        digest BLOB NOT NULL,
        create_ms INTEGER NOT NULL,
        expire_ms INTEGER,
        revoke_ms INTEGER,
        last_use_ms INTEGER
      ) WITHOUT ROWID;

      CREATE TABLE verifications (
        id BLOB PRIMARY KEY,
        tenant TEXT NOT NULL,
        key_id TEXT NOT NULL,
        kid INTEGER NOT NULL,
        salt BLOB,
        phone_index BLOB NOT NULL,
        phone_box BLOB NOT NULL,
        region TEXT NOT NULL,
        locale TEXT,
        purpose TEXT,
        bind TEXT,
        web_origin TEXT,
        app_hash TEXT,
        known_user INTEGER NOT NULL,
        state INTEGER NOT NULL,
        delivery INTEGER NOT NULL,
        digits INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        attempts_max INTEGER NOT NULL,
        resends INTEGER NOT NULL,
        next_resend_ms INTEGER NOT NULL,
        create_ms INTEGER NOT NULL,
        expire_ms INTEGER NOT NULL,
        end_ms INTEGER
      ) WITHOUT ROWID;
      -- What a sweep looks for: pending ones by the end of their life, terminal ones by the end they came to.
      CREATE INDEX verifications_pending ON verifications (expire_ms) WHERE end_ms IS NULL;
      CREATE INDEX verifications_ended ON verifications (end_ms) WHERE end_ms IS NOT NULL;
      CREATE INDEX verifications_phone ON verifications (phone_index, create_ms);

      -- The outbox: one row per SMS owed. It goes with its verification.
      CREATE TABLE messages (
        verification_id BLOB NOT NULL,
        copy INTEGER NOT NULL,
        delivery INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        maybe_sent INTEGER NOT NULL,
        recipient_refused INTEGER NOT NULL,
        provider_index INTEGER NOT NULL,
        due_ms INTEGER,
        deadline_ms INTEGER NOT NULL,
        provider TEXT,
        provider_message_id TEXT,
        detail TEXT,
        PRIMARY KEY (verification_id, copy)
      ) WITHOUT ROWID;
      CREATE INDEX messages_due ON messages (due_ms) WHERE due_ms IS NOT NULL;

      -- GCRA: one moment per bucket. A row whose moment has passed means the same as no row.
      CREATE TABLE buckets (
        bucket BLOB PRIMARY KEY,
        tat_ms INTEGER NOT NULL
      ) WITHOUT ROWID;

      -- What is remembered of a phone beyond its limits. Most have no row.
      CREATE TABLE phones (
        phone_index BLOB PRIMARY KEY,
        wrong_codes TEXT NOT NULL,
        refunds TEXT NOT NULL
      ) WITHOUT ROWID;

      CREATE TABLE idempotency (
        slot BLOB PRIMARY KEY,
        kid INTEGER NOT NULL,
        fingerprint BLOB NOT NULL,
        verification_id BLOB NOT NULL,
        answer TEXT,
        busy_until_ms INTEGER NOT NULL,
        expire_ms INTEGER NOT NULL
      ) WITHOUT ROWID;
    `,
  },
  {
    name: "0002-publishable-keys",
    sqlite: `
      -- Origins are separated by a space, as scopes are.
      ALTER TABLE api_keys ADD COLUMN origins TEXT NOT NULL DEFAULT '';
      ALTER TABLE api_keys ADD COLUMN is_app INTEGER NOT NULL DEFAULT 0;

      -- Every preflight asks whether any active key lists its origin: one seek here, however many keys there are. A key's
      -- rows go when it is revoked, and count until it expires.
      CREATE TABLE key_origins (
        origin TEXT NOT NULL,
        end_ms INTEGER NOT NULL,
        key_id TEXT NOT NULL,
        PRIMARY KEY (origin, end_ms, key_id)
      ) WITHOUT ROWID;
    `,
  },
  {
    name: "0003-tenants",
    sqlite: `
      -- What a tenant has of its own, as a JSON object, and since when it is disabled, if it is.
      ALTER TABLE tenants ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE tenants ADD COLUMN disable_ms INTEGER;
      -- Grows with every write to any tenant, so that one look tells a server whether it has to read them again.
      ALTER TABLE tenants ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX tenants_revision ON tenants (revision);
    `,
  },
  {
    name: "0004-destinations",
    sqlite: `
      -- The operator's lists: what a prefix or a whole number is told, before anything is spent on it.
      CREATE TABLE destinations (
        tenant TEXT NOT NULL REFERENCES tenants (id),
        prefix TEXT NOT NULL,
        verdict TEXT NOT NULL CHECK (verdict IN ('block', 'allow')),
        note TEXT NOT NULL,
        create_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, prefix)
      ) WITHOUT ROWID;

      -- Messages of a tenant in a UTC day (its number since the epoch), and the share of the cap that was warned of.
      CREATE TABLE daily_messages (
        tenant TEXT NOT NULL,
        day INTEGER NOT NULL,
        count INTEGER NOT NULL,
        warned INTEGER NOT NULL,
        PRIMARY KEY (tenant, day)
      ) WITHOUT ROWID;
      -- The day of which a message has a place that no call has used up yet.
      ALTER TABLE messages ADD COLUMN place_day INTEGER;
    `,
  },
  {
    name: "0005-prefixes",
    sqlite: `
      -- What the pumping guard knows of a prefix, a number without its last four digits, in the clear. No row of a
      -- verification holds it, nor a time as exact as theirs.
      CREATE TABLE prefixes (
        tenant TEXT NOT NULL,
        prefix TEXT NOT NULL,
        phase INTEGER NOT NULL,
        sent INTEGER NOT NULL,
        matured INTEGER NOT NULL,
        verified INTEGER NOT NULL,
        beyond_sent INTEGER NOT NULL,
        beyond_verified INTEGER NOT NULL,
        proven INTEGER NOT NULL,
        trips INTEGER NOT NULL,
        since_ms INTEGER NOT NULL,
        until_ms INTEGER NOT NULL,
        tat_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        refused_first_ms INTEGER NOT NULL,
        refused_last_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, prefix)
      ) WITHOUT ROWID;

      CREATE TABLE prefix_decisions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        prefix TEXT NOT NULL,
        kind INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        matured INTEGER NOT NULL,
        verified INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        until_ms INTEGER,
        enforced INTEGER NOT NULL
      );
      CREATE INDEX prefix_decisions_prefix ON prefix_decisions (tenant, prefix, id);
      CREATE INDEX prefix_decisions_at ON prefix_decisions (at_ms);

      -- What a verification counts for at its prefix; nothing, for those that were there before.
      ALTER TABLE verifications ADD COLUMN tally INTEGER NOT NULL DEFAULT 0;
    `,
  },
  {
    name: "0006-guesses",
    sqlite: `
      -- Codes that were compared, by tenant and by minute since the epoch. Minutes past the window are swept.
      CREATE TABLE guesses (
        tenant TEXT NOT NULL,
        minute INTEGER NOT NULL,
        wrong_codes INTEGER NOT NULL,
        right_codes INTEGER NOT NULL,
        PRIMARY KEY (tenant, minute)
      ) WITHOUT ROWID;
      CREATE INDEX guesses_minute ON guesses (minute);

      -- The master key that a row is found under. It is not to be dropped while the row matters. Of rows from before it
      -- is known where one key wrote them all; the others count as anyone's, and are gone in 90 days.
      ALTER TABLE phones ADD COLUMN kid INTEGER;
      ALTER TABLE buckets ADD COLUMN kid INTEGER;
      UPDATE phones SET kid = (SELECT kid FROM master_keys) WHERE (SELECT count(*) FROM master_keys) = 1;
      UPDATE buckets SET kid = (SELECT kid FROM master_keys) WHERE (SELECT count(*) FROM master_keys) = 1;
    `,
  },
  {
    name: "0007-by-age",
    sqlite: `
      -- Verifications and messages by age instead of by their random ids: what is at work at the same time is in the same
      -- few pages, however many rows there are, and a commit writes half as many.
      CREATE TABLE verifications_by_age (
        id BLOB PRIMARY KEY NOT NULL,
        tenant TEXT NOT NULL,
        key_id TEXT NOT NULL,
        kid INTEGER NOT NULL,
        salt BLOB,
        phone_index BLOB NOT NULL,
        phone_box BLOB NOT NULL,
        region TEXT NOT NULL,
        locale TEXT,
        purpose TEXT,
        bind TEXT,
        web_origin TEXT,
        app_hash TEXT,
        known_user INTEGER NOT NULL,
        tally INTEGER NOT NULL DEFAULT 0,
        state INTEGER NOT NULL,
        delivery INTEGER NOT NULL,
        digits INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        attempts_max INTEGER NOT NULL,
        resends INTEGER NOT NULL,
        next_resend_ms INTEGER NOT NULL,
        create_ms INTEGER NOT NULL,
        expire_ms INTEGER NOT NULL,
        end_ms INTEGER
      );
      INSERT INTO verifications_by_age SELECT id, tenant, key_id, kid, salt, phone_index, phone_box, region, locale,
        purpose, bind, web_origin, app_hash, known_user, tally, state, delivery, digits, attempts, attempts_max, resends,
        next_resend_ms, create_ms, expire_ms, end_ms FROM verifications ORDER BY create_ms;
      DROP TABLE verifications;
      ALTER TABLE verifications_by_age RENAME TO verifications;
      CREATE INDEX verifications_pending ON verifications (expire_ms) WHERE end_ms IS NULL;
      CREATE INDEX verifications_ended ON verifications (end_ms) WHERE end_ms IS NOT NULL;
      CREATE INDEX verifications_phone ON verifications (phone_index, create_ms);

      CREATE TABLE messages_by_age (
        verification_id BLOB NOT NULL,
        copy INTEGER NOT NULL,
        delivery INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        maybe_sent INTEGER NOT NULL,
        recipient_refused INTEGER NOT NULL,
        provider_index INTEGER NOT NULL,
        due_ms INTEGER,
        deadline_ms INTEGER NOT NULL,
        place_day INTEGER,
        provider TEXT,
        provider_message_id TEXT,
        detail TEXT,
        PRIMARY KEY (verification_id, copy)
      );
      INSERT INTO messages_by_age SELECT verification_id, copy, delivery, calls, failures, maybe_sent, recipient_refused,
        provider_index, due_ms, deadline_ms, place_day, provider, provider_message_id, detail
        FROM messages ORDER BY deadline_ms;
      DROP TABLE messages;
      ALTER TABLE messages_by_age RENAME TO messages;
      CREATE INDEX messages_due ON messages (due_ms) WHERE due_ms IS NOT NULL;
    `,
  },
  {
    name: "0008-events",
    sqlite: `
      -- Where tenants want to be told of what happens. Secrets are encrypted, all of an endpoint under one master key.
      CREATE TABLE webhook_endpoints (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL REFERENCES tenants (id),
        url TEXT NOT NULL,
        types TEXT NOT NULL,
        show_phones INTEGER NOT NULL,
        kid INTEGER NOT NULL,
        secrets TEXT NOT NULL,
        create_ms INTEGER NOT NULL,
        disable_ms INTEGER,
        why TEXT,
        failing_since_ms INTEGER
      ) WITHOUT ROWID;
      CREATE INDEX webhook_endpoints_tenant ON webhook_endpoints (tenant);

      -- Events that an endpoint has not taken yet: a row for each of the two. Deleted once taken or given up.
      CREATE TABLE events (
        endpoint_id TEXT NOT NULL,
        id TEXT NOT NULL,
        tenant TEXT NOT NULL,
        type TEXT NOT NULL,
        create_ms INTEGER NOT NULL,
        facts TEXT NOT NULL,
        kid INTEGER,
        phone_box BLOB,
        tries INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        PRIMARY KEY (endpoint_id, id)
      );
      CREATE INDEX events_due ON events (due_ms);
    `,
  },
  {
    name: "0009-events-by-endpoint",
    sqlite: `
      -- What is due for one endpoint is found without going through what waits for it.
      CREATE INDEX events_endpoint_due ON events (endpoint_id, due_ms);
    `,
  },
  {
    name: "0010-warned-cap",
    sqlite: `
      -- The highest cap that was warned under: one that is raised is warned of again.
      ALTER TABLE daily_messages ADD COLUMN warned_cap INTEGER NOT NULL DEFAULT 0;
    `,
  },
  {
    name: "0011-channel",
    sqlite: `
      -- How a verification was asked for, and how a message travels: by SMS, all that were there before.
      ALTER TABLE verifications ADD COLUMN channel INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE messages ADD COLUMN channel INTEGER NOT NULL DEFAULT 0;
    `,
  },
  {
    name: "0012-counters",
    sqlite: `
      -- What is counted of a tenant's day, each kind by itself and in whole numbers: so far the messages.
      CREATE TABLE counters (
        tenant TEXT NOT NULL,
        day INTEGER NOT NULL,
        kind TEXT NOT NULL,
        count INTEGER NOT NULL,
        warned INTEGER NOT NULL,
        warned_cap INTEGER NOT NULL,
        PRIMARY KEY (tenant, day, kind)
      ) WITHOUT ROWID;
      INSERT INTO counters SELECT tenant, day, 'messages', count, warned, warned_cap FROM daily_messages;
      DROP TABLE daily_messages;
    `,
  },
  {
    name: "0013-log",
    sqlite: `
      -- What happened to a verification (rows/log.ts); NULL in those that were there before.
      ALTER TABLE verifications ADD COLUMN log BLOB;
    `,
  },
  {
    name: "0014-prefix-journal",
    sqlite: `
      -- Prefixes as a batch has changed them (rows/prefix.ts), until their rows are brought up to date.
      CREATE TABLE prefix_journal (id INTEGER PRIMARY KEY, prefixes BLOB NOT NULL);
    `,
  },
];
