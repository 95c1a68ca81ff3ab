/**
 * Messages in the order of their verifications.
 */
import type { Migration } from "../migrate.ts";

export const messagesByVerification: Migration = {
  name: "0018-messages-by-verification",
  sqlite: `
      -- By when their verification was opened, which whoever asks for a message has at hand, and then by its id: an index on
      -- the ids alone, which are random, was a page of its own for each message.
      CREATE TABLE messages_by_verification (
        opened_ms INTEGER NOT NULL,
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
        channel INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (opened_ms, verification_id, copy)
      ) WITHOUT ROWID;
      -- In the order in which they are, which is nearly that of time already: to sort them would take memory for them all.
      INSERT INTO messages_by_verification SELECT v.create_ms, m.verification_id, m.copy, m.delivery, m.calls, m.failures,
        m.maybe_sent, m.recipient_refused, m.provider_index, m.due_ms, m.deadline_ms, m.place_day, m.provider,
        m.provider_message_id, m.detail, m.channel
        FROM messages AS m CROSS JOIN verifications AS v ON v.id = m.verification_id;
      DROP TABLE messages;
      ALTER TABLE messages_by_verification RENAME TO messages;
      CREATE INDEX messages_due ON messages (due_ms) WHERE due_ms IS NOT NULL;
    `,
};
