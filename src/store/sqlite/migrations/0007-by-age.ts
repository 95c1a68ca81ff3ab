/**
 * Tables of verifications and messages in the order of their age.
 */
import type { Migration } from "../migrate.ts";

export const byAge: Migration = {
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
};
