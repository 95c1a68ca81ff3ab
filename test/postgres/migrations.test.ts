/**
 * Migrations while others serve: instances that start together run each once, and a version that is not the newest goes
 * on, and starts, beside what the next one has added; not beside what a later one has taken away.
 */
import { inject, expect, test } from "vitest";
import { createConnections } from "../../src/store/postgres/connections.ts";
import { migratePostgres, type PostgresMigration } from "../../src/store/postgres/migrate.ts";
import { postgresMigrations } from "../../src/store/postgres/migrations.ts";
import { ann, ben, createActs, ringOf, testPolicy } from "../store/acts.ts";
import { openOnPostgres, waitFactor } from "../support/databases/opening.ts";
import { logOf } from "../support/data/examples.ts";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem, testEpochMs } from "../support/service/system.ts";

/** How many migrations this version has. */
const known = postgresMigrations.length;

const expansion: PostgresMigration = {
  name: "next",
  statements: [
    `CREATE TABLE next (id bigint PRIMARY KEY)`,
    `ALTER TABLE verifications ADD COLUMN note text`,
    `ALTER TABLE messages ADD COLUMN weight bigint NOT NULL DEFAULT 1`,
    `ALTER TABLE api_keys ADD COLUMN color text DEFAULT 'none'`,
    `ALTER TABLE tenants ADD COLUMN plan text`,
    `CREATE INDEX messages_weight ON messages (weight)`,
  ],
};

async function database(): Promise<{ url: string; read: (sql: string) => Promise<Record<string, unknown>[]> }> {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  return { url, read: (sql) => select({ kind: "postgres", url }, sql) };
}

const open = (url: string, system = createManualSystem()) => openOnPostgres({ url, system });

/** Runs a list as the version would that has it. */
async function migrate(url: string, migrations: readonly PostgresMigration[]): Promise<void> {
  const connections = createConnections({ url, connectionsMax: 1, isPatient: true, waitFactor });
  try {
    await migratePostgres(connections, migrations);
  } finally {
    await connections.close();
  }
}

/** As a version later than this one would. */
const migrateTo = (url: string, ...more: PostgresMigration[]) => migrate(url, [...postgresMigrations, ...more]);

test("an instance goes on serving while the next version adds to its tables, and so does one that starts after", async () => {
  const { url, read } = await database();
  const system = createManualSystem();
  const [one, two] = [await open(url), await open(url)];
  const acts = createActs(one, system);
  const { verification } = await acts.send(ann);
  // All through the change, on connections whose statements are prepared.
  let isOver = false;
  const sending = (async () => {
    while (!isOver) await createActs(two, system).send(ann);
  })();
  await migrateTo(url, expansion);
  isOver = true;
  await sending;
  expect(await acts.guess(verification, acts.rightCode(verification))).toBe("verified");

  const later = await open(url);
  const again = createActs(later, system);
  const sent = await again.send(ann);
  expect(await again.guess(sent.verification, again.wrongCode(sent.verification))).toBe("CODE_MISMATCH");
  // Nobody has put it back to what the older version knows.
  expect(await read("SELECT version, least FROM schema_version")).toEqual([{ version: known + 1, least: 0 }]);
  for (const store of [one, two, later]) await store.close();
});

test("what a version that knows no channels writes goes by SMS, before the migration and beside it", async () => {
  const { url, read } = await database();
  const system = createManualSystem();
  const store = await open(url);
  const acts = createActs(store, system);
  const { verification } = await acts.send(ann, { channel: "voice" });
  // The rows of an older version have every column but the new ones.
  const columnsOf = async (table: string) => {
    const found = await read(
      `SELECT column_name AS name FROM information_schema.columns
       WHERE table_schema = current_schema() AND table_name = '${table}' ORDER BY ordinal_position`,
    );
    return found.map(({ name }) => String(name)).filter((name) => name !== "channel");
  };
  const copyMessage = async (copy: number) => {
    const names = await columnsOf("messages");
    const values = names.map((name) => (name === "copy" ? `${copy}` : name));
    await read(`INSERT INTO messages (${names.join()}) SELECT ${values.join()} FROM messages WHERE copy = 0`);
  };
  await copyMessage(1);
  expect((await store.readMessages(verification.id)).map(({ channel }) => channel)).toEqual(["voice", "sms"]);
  // As the version before left it: without what came later, and with a message in the outbox.
  await read(`DROP INDEX idempotency_bare`);
  await read(`DROP TABLE counters, counter_lots, sums, summing, refusal_sums, day_sums, refusal_day_sums`);
  await read(`DROP FUNCTION follow_counters, follow_daily_messages, follow_sums, follow_refusals CASCADE`);
  await read(
    `ALTER TABLE messages DROP COLUMN channel, DROP COLUMN country_day, DROP COLUMN reserved_day, DROP COLUMN reserved`,
  );
  await read(`ALTER TABLE verifications DROP COLUMN channel`);
  await read(`ALTER TABLE verifications DROP COLUMN log, DROP COLUMN fallback, DROP COLUMN fallback_ms`);
  await read(`ALTER TABLE verifications DROP COLUMN spent_limits`);
  await read(`ALTER TABLE api_keys DROP COLUMN channels, DROP COLUMN last_refuse_ms`);
  await read(`DROP INDEX verifications_opened, prefix_decisions_suspect`);
  await read(`DROP TABLE admin_keys, audit, console_links, console_sessions`);
  await read(`UPDATE schema_version SET version = 2`);
  await store.close();
  const later = await open(url);
  expect((await later.readMessages(verification.id)).map(({ channel }) => channel)).toEqual(["sms", "sms"]);
  expect(await later.readVerification("default", verification.id)).toMatchObject({ channel: "sms" });
  await later.close();
});

test("a day's messages are counted on, and an instance of the version before the counters counts on with it", async () => {
  const { url, read } = await database();
  const day = Math.floor(testEpochMs / 86_400_000);
  const put = (count: number) =>
    read(`INSERT INTO daily_messages (tenant, day, count, warned, warned_cap) VALUES ('default', ${day}, ${count}, 80, 9)
      ON CONFLICT (tenant, day) DO UPDATE SET count = excluded.count, warned = excluded.warned`);
  await migrate(url, postgresMigrations.slice(0, 4));
  await put(7);

  const system = createManualSystem();
  const store = await open(url, system);
  const acts = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 9 });
  const counted = () => read("SELECT tenant, day::int, count::int, warned, warned_cap::int FROM daily_messages");
  expect(await acts.trySend(ann)).toBe("opened");
  expect(await counted()).toEqual([{ tenant: "default", day, count: 8, warned: 80, warned_cap: 9 }]);
  // The older one counts a message, and here the cap is reached; then it gives two back.
  await put(9);
  expect(await acts.trySend(ben)).toBe("SPEND_LIMIT");
  await put(7);
  expect([await acts.trySend(ben), await acts.trySend(ben), await acts.trySend(ben)]).toEqual([
    "opened",
    "opened",
    "SPEND_LIMIT",
  ]);
  expect(await counted()).toMatchObject([{ count: 9, warned: 100 }]);
  system.advance(9 * 86_400_000);
  await store.sweep(100, 86_400_000);
  expect([await counted(), await read("SELECT * FROM counters")]).toEqual([[], []]);
  await store.close();
});

test("what a version that keeps no log writes leaves the log as it is, and one that it opens has none", async () => {
  const { url, read } = await database();
  const system = createManualSystem();
  const store = await open(url);
  const acts = createActs(store, system);
  const { verification } = await acts.send(ann);
  // As the version before writes them.
  await read(`UPDATE verifications SET attempts = attempts + 1`);
  expect(await acts.guess(verification, acts.wrongCode(verification))).toBe("CODE_MISMATCH");
  const seen = [await acts.read(verification)];
  await read(`UPDATE verifications SET log = NULL`);
  expect(await acts.guess(verification, acts.wrongCode(verification))).toBe("CODE_MISMATCH");
  seen.push(await acts.read(verification));
  expect(seen.map(({ attempts, log }) => [attempts, log])).toEqual([
    [2, logOf([0, "send", "sms"], [0, "guess", "wrong"])],
    [3, logOf([0, "guess", "wrong"])],
  ]);
  await store.close();
});

test("a version that needs what a later one has taken away is refused, and one that can do without is not", async () => {
  const { url } = await database();
  await (await open(url)).close();
  const contraction = { name: "without", statements: [`ALTER TABLE next DROP COLUMN id`], least: known + 1 };
  await migrateTo(url, expansion, contraction);
  await expect(open(url)).rejects.toThrow("the database was written by a newer version of otpd");
  await expect(migrateTo(url, expansion)).resolves.toBeUndefined();
});

test("a migration that fails is taken back whole, with those before it, and can be tried again", async () => {
  const { url, read } = await database();
  await (await open(url)).close();
  const tables = () => read("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1");
  const before = [await tables(), await read("SELECT * FROM schema_version")];
  const broken = { name: "broken", statements: ["CREATE TABLE half (id int)", "INSERT INTO nowhere VALUES (1)"] };
  await expect(migrateTo(url, expansion, broken)).rejects.toThrow(
    'migration broken failed and was taken back: relation "nowhere" does not exist',
  );
  expect([await tables(), await read("SELECT * FROM schema_version")]).toEqual(before);
  await migrateTo(url, expansion, { ...broken, statements: ["CREATE TABLE half (id int)"] });
  expect(await read("SELECT version FROM schema_version")).toEqual([{ version: known + 2 }]);
});

test("a migration may take as long as it takes, but keeps nobody from a table for long", async () => {
  const { url, read } = await database();
  const limits = `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock`;
  await migrateTo(url, { name: "limits", statements: [`CREATE TABLE limits AS ${limits}`] });
  expect(await read("SELECT * FROM limits")).toEqual([{ statement: "0", lock: "4s" }]);
});

test("ten that migrate at once run each migration once", async () => {
  const { url, read } = await database();
  const counting = { name: "count", statements: ["CREATE TABLE runs (id int)", "INSERT INTO runs VALUES (1)"] };
  await Promise.all(Array.from({ length: 10 }, () => migrateTo(url, counting)));
  expect(await read("SELECT count(*)::int AS n FROM runs")).toEqual([{ n: 1 }]);
  expect(await read("SELECT version FROM schema_version")).toEqual([{ version: known + 1 }]);
});
