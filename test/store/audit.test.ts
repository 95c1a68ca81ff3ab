/**
 * The audit: committed with what it tells of or not at all, never changed, and deleted by its age alone.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { auditMs, commandLine, noteOf } from "../../src/otp/operators/audit.ts";
import { makeKey } from "../../src/service/callers/api-keys.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { createManualSystem, type ManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
let system: ManualSystem;
let store: Store;
beforeEach(async () => {
  folder = temporaryFolder();
  system = createManualSystem();
  store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const note = noteOf(commandLine, "api_key.create");
const spec = { kind: "live", tenant: "default", name: "shop", scopes: ["send"], expireMs: null } as const;
const any = { tenant: "", actor: "", action: "", subject: "", actorTenant: "", fromMs: 0 };
const found = () => store.registry.findAudit({ ...any, toMs: 9e15, max: 100 });

test("an act that is taken back leaves no entry, and one that is not leaves one", async () => {
  const { key } = makeKey(store, system, spec);
  await expect(store.registry.addFirstApiKeys([key, key], note)).rejects.toThrow(/api_keys/);
  expect({ keys: await store.registry.listApiKeys(), entries: await found() }).toEqual({ keys: [], entries: [] });
  await store.registry.addFirstApiKeys([key], note);
  const entries = await found();
  expect(entries.map(({ entry }) => entry)).toMatchObject([
    { actor: "cli", action: "api_key.create", subject: key.id },
  ]);
  expect(JSON.stringify(entries)).not.toContain(Buffer.from(key.digest).toString("base64"));
});

test("an entry is there for 400 days, and gone with the next sweep", async () => {
  const { key } = makeKey(store, system, spec);
  await store.registry.addApiKey(key, note);
  system.advance(auditMs);
  await store.sweep(100, 3_600_000);
  expect(await found()).toHaveLength(1);
  system.advance(1);
  await store.sweep(100, 3_600_000);
  expect(await found()).toHaveLength(0);
});

test("entries are found by their time, a page at a time, and by what was done to what", async () => {
  // A copy, or a sample month, brings what is older later.
  const at = [5_000, 1_000, 9_000, 5_000];
  inDatabase(join(folder, "otp.db"), (db) => {
    const put = db.prepare("INSERT INTO audit VALUES (NULL, ?, 'cli', '', '', 'tenant.update', 'acme', ?, '', '{}')");
    for (const [i, ms] of at.entries()) put.run(ms, `t${i}`);
  });
  const all = (await found()).map(({ id, entry }) => ({ atMs: entry.atMs, id, subject: entry.subject }));
  expect(all.map(({ subject }) => subject)).toEqual(["t2", "t3", "t0", "t1"]);
  const query = { ...any, toMs: 9e15, max: 2 };
  const first = await store.registry.findAudit(query);
  const second = await store.registry.findAudit({ ...query, after: all[1] });
  expect([...first, ...second].map(({ entry }) => entry.subject)).toEqual(["t2", "t3", "t0", "t1"]);
  const ofOne = await store.registry.findAudit({ ...query, subject: "t3" });
  expect(ofOne.map(({ entry }) => entry.subject)).toEqual(["t3"]);
});

test("no statement changes an entry, and none but the sweep's deletes one", () => {
  const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const texts = files.map((file) => [file, readFileSync(join("src", file), "utf8")] as const);
  const changing = texts.filter(([, text]) => /\b(?:UPDATE|DELETE FROM|REPLACE INTO)\s+audit\b/.test(text));
  expect(changing.map(([file]) => file).toSorted()).toEqual([
    join("store", "postgres", "statements.ts"),
    join("store", "sqlite", "statements.ts"),
  ]);
  expect(changing.flatMap(([, text]) => text.match(/\bUPDATE\s+audit\b/g) ?? [])).toEqual([]);
});
