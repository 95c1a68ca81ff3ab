/**
 * The schema that SQLite had when PostgreSQL came.
 */
import type { PostgresMigration } from "../migrate.ts";

export const first: PostgresMigration = {
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
};
