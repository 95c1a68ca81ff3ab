/**
 * Each search goes by an index, on 100,000 verifications: what the planners say they would do.
 */
import Sqlite from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { expect, test } from "vitest";
import { auditFound } from "../../src/store/acts/audit.ts";
import { ofId, ofPhone } from "../../src/store/acts/finding.ts";
import { suspectsText } from "../../src/store/acts/prefixes.ts";
import { preparePostgres } from "../../src/store/postgres/open.ts";
import { finding as onPostgres } from "../../src/store/postgres/statements.ts";
import { openFile } from "../../src/store/sqlite/open.ts";
import { finding as onSqlite } from "../../src/store/sqlite/statements.ts";
import { bindable } from "../../src/store/statement.ts";
import { waitFactor } from "../support/databases/opening.ts";
import { startPostgres } from "../support/databases/postgres.ts";
import { temporaryFolder } from "../support/service/world.ts";

const id = Buffer.alloc(16, 5);
const byTime = [50_000, id, 0, 100];
const sought = ["", "", -1, 0];
const valuesOf = {
  found: [...byTime, ...sought, 20],
  last: byTime,
  phone: [50_000, id, 0, ...sought, ...Array<Buffer>(32).fill(id), 20],
  id: [id, id],
};

test("on SQLite no search goes through a table", async () => {
  const folder = temporaryFolder();
  const db = await openFile(join(folder, "otp.db"), () => {});
  const planOf = (statement: { readonly text: string }) =>
    db
      .prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${bindable(statement).text}`)
      .all(...(Array(bindable(statement).order.length).fill(null) as []))
      .map(({ detail }) => detail)
      .filter((detail) => /SCAN|SEARCH/.test(detail));
  expect(planOf(onSqlite.found)).toEqual([
    expect.stringContaining("SEARCH messages USING PRIMARY KEY"),
    expect.stringMatching(/SCAN s$/),
    expect.stringContaining("SEARCH v USING INDEX sqlite_autoindex_verifications"),
  ]);
  expect(planOf(onSqlite.last)).toEqual([expect.stringContaining("SEARCH messages USING PRIMARY KEY"), "SCAN s"]);
  expect(planOf(ofPhone)).toEqual([expect.stringContaining("SEARCH v USING INDEX verifications_phone")]);
  expect(planOf(ofId)).toEqual([expect.stringContaining("SEARCH v USING INDEX sqlite_autoindex_verifications")]);
  expect(planOf({ text: suspectsText })).toEqual([
    expect.stringContaining("SCAN prefix_decisions USING INDEX prefix_decisions_suspect"),
  ]);
  for (const column of ["tenant", "actor", "action", "subject"] as const) {
    expect(planOf(auditFound([column]))).toEqual([
      expect.stringContaining(`USING INDEX audit_of_${column} (${column}=?`),
    ]);
  }
  expect(planOf(auditFound(["subject", "actor", "tenant", "action", "actor_tenant"]))).toEqual([
    expect.stringContaining("USING INDEX audit_of_subject (subject=? AND at_ms>? AND at_ms<?)"),
  ]);
  expect(planOf(auditFound([]))).toEqual([expect.stringContaining("USING INDEX audit_at (at_ms>? AND at_ms<?)")]);
  expect(db).toBeInstanceOf(Sqlite);
  db.close();
  rmSync(folder, { recursive: true, force: true });
});

test("on PostgreSQL no search goes through a table", async () => {
  const server = await startPostgres();
  const url = await server.createDatabase();
  await preparePostgres({ url, waitFactor });
  const client = new Client(url);
  await client.connect();
  await client.query(`INSERT INTO verifications (id, tenant, key_id, kid, phone_index, phone_box, region, known_user, tally, state,
      delivery, digits, attempts, attempts_max, resends, next_resend_ms, create_ms, expire_ms, end_ms)
    SELECT decode(md5(n::text), 'hex'), 'default', 'k', 1, decode(md5((n % 20000)::text), 'hex'), '\\x00', 'NL', 0, 0, 1,
      3, 6, 1, 5, 0, n, n, n + 600000, n + 5 FROM generate_series(1, 100000) AS n`);
  await client.query(`INSERT INTO audit (at_ms, actor, actor_tenant, address, action, tenant, subject, before, after)
    SELECT n, 'user:' || n % 20, '', '', 'act.' || n % 20, 'tenant-' || n % 50, 'subject-' || n % 500, '', '{}'
    FROM generate_series(1, 20000) AS n`);
  await client.query("ANALYZE");
  const planOf = async ({ text }: { readonly text: string }, values: readonly unknown[]) =>
    (await client.query<{ "QUERY PLAN": string }>(`EXPLAIN ${text}`, [...values])).rows
      .map((row) => row["QUERY PLAN"])
      .filter((line) => /Scan/.test(line) && !/Subquery Scan/.test(line))
      .map((line) => /(\w+ )*Scan.*?(on|using) \w+/.exec(line)?.[0]);
  expect(await planOf(onPostgres.found, valuesOf.found)).toEqual([
    "Index Only Scan Backward using verifications_opened",
    "Index Scan using verifications_pkey",
  ]);
  // Of a tenant that has nearly all rows, or of none: what looks at the order of all rows goes on to the end.
  await client.query(`UPDATE verifications SET tenant = 'small' WHERE substr(id, 1, 1) = '\\x07'`);
  await client.query("ANALYZE verifications");
  for (const tenant of ["default", "small", "nobody"]) {
    expect(await planOf(onPostgres.found, [...byTime.slice(0, 3), 2_000, tenant, `${tenant}+test`, -1, 0, 20])).toEqual(
      ["Index Only Scan Backward using verifications_opened", "Index Scan using verifications_pkey"],
    );
  }
  expect(await planOf(onPostgres.last, valuesOf.last)).toEqual(["Index Only Scan Backward using verifications_opened"]);
  for (const line of await planOf(ofPhone, valuesOf.phone))
    expect(line).toMatch(/verifications_phone|Bitmap Heap Scan/);
  expect(await planOf(ofId, valuesOf.id)).toEqual(["Index Scan using verifications_pkey"]);
  for (const column of ["tenant", "actor", "action", "subject"] as const) {
    // Of nobody: without an index of its own, all there is would be looked at.
    const plan = await planOf(auditFound([column]), ["nobody", 0, 9e15, 9e15, 9e15, 51]);
    expect(plan.at(-1)).toMatch(`audit_of_${column}`);
  }
  await client.end();
  await server.stop();
});
