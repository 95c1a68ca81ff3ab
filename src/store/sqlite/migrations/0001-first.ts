/**
 * The first schema: master keys, clock, tenants, API keys, verifications, messages, phones, records.
 */
import type { Migration } from "../migrate.ts";

export const first: Migration = {
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
};
