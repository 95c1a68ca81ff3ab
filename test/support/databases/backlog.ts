/**
 * A database with a past: verifications that ended some time ago, with their messages, as months of service leave them
 * behind. Written past the product's own code, which cannot go back in time.
 */
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { createSystem } from "../../../src/system.ts";
import { inDatabase } from "./rows.ts";

const hourMs = 3_600_000;

/** Creates a database if there is none, and adds `count` verified verifications that ended so many hours ago. */
export async function addEnded(path: string, count: number, hoursAgo: number): Promise<void> {
  await addVerifications(path, count, { state: 1, endMs: Date.now() - hoursAgo * hourMs, salt: null });
}

/** Adds `count` pending verifications whose time has passed unnoticed. */
export async function addLapsed(path: string, count: number): Promise<void> {
  await addVerifications(path, count, { state: 0, endMs: null, salt: Buffer.alloc(16, 1) });
}

async function addVerifications(
  path: string,
  count: number,
  { state, endMs, salt }: { state: number; endMs: number | null; salt: Buffer | null },
): Promise<void> {
  const store = await openSqlite({ path, system: createSystem(), exclusive: false });
  await store.close();
  inDatabase(path, (db) => {
    const beganMs = (endMs ?? Date.now() - hourMs) - 60_000;
    const verification = db.prepare(
      `INSERT INTO verifications (id, tenant, key_id, kid, salt, phone_index, phone_box, region, known_user, state,
         delivery, digits, attempts, attempts_max, resends, next_resend_ms, create_ms, expire_ms, end_ms)
       VALUES (?, 'default', 'k', 1, ?, randomblob(16), randomblob(40), 'NL', 0, ?, 2, 6, 1, 5, 0, 0, ?, ?, ?)`,
    );
    const message = db.prepare(
      `INSERT INTO messages (verification_id, copy, delivery, calls, failures, maybe_sent, recipient_refused,
         provider_index, due_ms, deadline_ms, opened_ms)
       VALUES (?, 0, 2, 1, 0, 1, 0, 0, NULL, ?, ?)`,
    );
    const id = db.prepare<[], { id: Buffer }>("SELECT randomblob(16) AS id");
    db.transaction(() => {
      for (let i = 0; i < count; i += 1) {
        const made = id.get()?.id;
        verification.run(made, salt, state, beganMs, beganMs + 60_000, endMs);
        message.run(made, beganMs, beganMs);
      }
    })();
  });
}
