/**
 * Schemas on PostgreSQL with many pending verifications: those that real calls have made in another one, with all their rows,
 * each so many times over under other ids. The database makes them, a table in a statement.
 */
import type { PostgresServer } from "../../../test/support/databases/postgres.ts";

/** The tables that grow with sends, and what names the owner of a row, if only by what it begins with. */
const tables: Readonly<Record<string, string>> = {
  verifications: "id",
  messages: "verification_id",
  idempotency: "verification_id",
  buckets: "bucket",
  phones: "phone_index",
};
/** A bucket begins with its phone's index. */
const ownerBytes = 16;
/** What else differs from row to row. */
const random: ReadonlySet<string> = new Set(["salt", "phone_box", "phone_index", "slot", "fingerprint"]);
/** When a pending row lapses: not while it is measured. */
const ends: ReadonlySet<string> = new Set(["expire_ms", "deadline_ms", "tat_ms"]);
const dayMs = 86_400_000;

/** Fills the empty tables of `to` with the rows of `from`, each `times` over; tells how many verifications that makes. */
export async function multiplyInto(
  server: Pick<PostgresServer, "run">,
  from: string,
  to: string,
  times: number,
): Promise<number> {
  const [source, target] = [schemaOf(from), schemaOf(to)];
  for (const [table, owner] of Object.entries(tables)) {
    const { drop, add } = await indexesOf(server, target, table);
    const columns = await server.run(
      `SELECT column_name AS name FROM information_schema.columns
       WHERE table_schema = '${source}' AND table_name = '${table}' ORDER BY ordinal_position`,
    );
    const names = columns.map(({ name }) => String(name));
    // Indexes are made of all rows at once: a place for each would be sought all over them, and each page logged.
    await server.run(
      `${drop};
       INSERT INTO ${target}.${table} (${names.join(", ")})
       SELECT ${names.map((name) => another(name, owner)).join(", ")}
       FROM generate_series(1, ${times}) AS nth CROSS JOIN ${source}.${table};
       SET maintenance_work_mem = '1GB';
       ${add}`,
    );
    // As it is where autovacuum has come by since.
    await server.run(`VACUUM (ANALYZE) ${target}.${table}`);
  }
  await server.run("CHECKPOINT");
  const [made] = await server.run(`SELECT count(*)::int AS count FROM ${target}.verifications`);
  return Number(made?.["count"]);
}

/** What drops the indexes of a table, and what makes them again. */
async function indexesOf(
  server: Pick<PostgresServer, "run">,
  schema: string,
  table: string,
): Promise<{ drop: string; add: string }> {
  const of = `ALTER TABLE ${schema}.${table}`;
  const [found] = await server.run(
    `SELECT
       string_agg(coalesce('${of} DROP CONSTRAINT ' || c.conname, 'DROP INDEX ' || i.indexrelid::regclass), '; ') AS drop,
       string_agg(coalesce('${of} ADD CONSTRAINT ' || c.conname || ' ' || pg_get_constraintdef(c.oid),
         pg_get_indexdef(i.indexrelid)), '; ') AS add
     FROM pg_index AS i LEFT JOIN pg_constraint AS c ON c.conindid = i.indexrelid AND c.contype = 'p'
     WHERE i.indrelid = '${schema}.${table}'::regclass`,
  );
  return { drop: String(found?.["drop"]), add: String(found?.["add"]) };
}

/** What stands in a column of a copy. The same of the same in every table, so that rows still belong together. */
function another(column: string, owner: string): string {
  const hash = (bytes: string) => `sha256(${bytes} || int4send(nth))`;
  if (column === owner) {
    const head = `substr(${column}, 1, ${ownerBytes})`;
    return `substr(${hash(head)}, 1, ${ownerBytes}) || substr(${column}, ${ownerBytes + 1})`;
  }
  if (random.has(column)) return `substr(${hash(column)} || ${hash(`${column} || 'more'`)}, 1, length(${column}))`;
  return ends.has(column) ? `${column} + ${dayMs}` : column;
}

/** Bytes of a schema's tables with their indexes. */
export async function bytesOf(server: Pick<PostgresServer, "run">, url: string): Promise<number> {
  const [found] = await server.run(
    `SELECT sum(pg_total_relation_size(oid))::float8 AS bytes FROM pg_class
     WHERE relkind = 'r' AND relnamespace = '${schemaOf(url)}'::regnamespace`,
  );
  return Number(found?.["bytes"]);
}

function schemaOf(url: string): string {
  const [, name] = /search_path=(\w+)/.exec(new URL(url).searchParams.get("options") ?? "") ?? [];
  if (name === undefined) throw new Error("the URL names no schema");
  return name;
}
