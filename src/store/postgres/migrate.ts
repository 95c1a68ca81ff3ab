/**
 * Brings a database on PostgreSQL to the schema of a list, such as the one of migrations.ts.
 */
import type { Connections, Transaction } from "./connections.ts";

export interface PostgresMigration {
  readonly name: string;
  readonly statements: readonly string[];
  /** Only of a contraction: how many migrations a program has to know from now on. */
  readonly least?: number;
}

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
 * Runs the migrations of `list` that this database has not seen. Instances that start together wait for one another, for as long as
 * a migration takes, so `connections` are patient ones. Leaves a database alone that has seen more, and rejects where that
 * took away what this program needs.
 */
export async function migratePostgres(connections: Connections, list: readonly PostgresMigration[]): Promise<void> {
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
        const why = error instanceof Error ? error.message : String(error);
        throw new Error(`migration ${migration.name} failed and was taken back: ${why}`, { cause: error });
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
