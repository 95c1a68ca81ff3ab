/** Anybody can have origins and keys looked up, as many as he likes: all of a kind never take more than one connection. */
import { afterEach, beforeEach, expect, inject, test } from "vitest";
import { secretScopes } from "../../src/otp/keys/api-key.ts";
import { issueKey } from "../../src/service/callers/api-keys.ts";
import type { Connections } from "../../src/store/postgres/connections.ts";
import type { Store } from "../../src/store/store.ts";
import { connectTo, storeOver } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

let connections: Connections;
let reads: { all: number; underWay: number; atOnce: number };
let store: Store;
/** The names of the statements, in their order. */
let asked: string[];
const system = createManualSystem();
beforeEach(async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  connections = await connectTo(url);
  asked = [];
  reads = { all: 0, underWay: 0, atOnce: 0 };
  const query: Connections["query"] = async (statement, values) => {
    asked.push(statement.name);
    reads.all += 1;
    reads.underWay += 1;
    reads.atOnce = Math.max(reads.atOnce, reads.underWay);
    return connections.query<never>(statement, values).finally(() => (reads.underWay -= 1));
  };
  store = storeOver({ ...connections, query }, { url, system });
});
afterEach(() => store.close());

test("500 origins at once are two reads, one after the other, and each hears of its own", async () => {
  const listed = (i: number) => i % 7 === 0 && i % 2 === 0;
  const origin = (i: number) => `https://shop${i}.example`;
  for (let i = 0; i < 500; i += 1) {
    if (listed(i)) await connections.query(insert, [origin(i), 9_000]);
    else if (i % 7 === 0) await connections.query(insert, [origin(i), 4_000]);
  }
  const answers = Array.from({ length: 500 }, (_, i) => store.registry.listsOrigin(origin(i), 5_000));
  expect(await Promise.all(answers)).toEqual(Array.from({ length: 500 }, (_, i) => listed(i)));
  expect(reads).toEqual({ all: 2, underWay: 0, atOnce: 1 });
  // Each by its own time, also of the same origin.
  const times = [3_999, 4_000, 8_999, 9_000];
  const ofTimes = times.map((now) => store.registry.listsOrigin(origin(7), now));
  expect(await Promise.all(ofTimes)).toEqual([true, false, false, false]);
});

test("500 keys at once are two reads, one after the other, and each hears of its own", async () => {
  const spec = { kind: "live", tenant: "default", scopes: secretScopes, expireMs: null } as const;
  const made = await Promise.all(["a", "b", "c"].map((name) => issueKey(store, system, { ...spec, name })));
  reads.all = 0;
  const ids = Array.from({ length: 500 }, (_, i) => made[i % 7]?.key.id ?? String(i).padStart(10, "0"));
  const found = await Promise.all(ids.map((id) => store.registry.findApiKey(id)));
  expect(found.map((key) => key?.name)).toEqual(ids.map((_, i) => ["a", "b", "c"][i % 7]));
  expect(reads).toEqual({ all: 2, underWay: 0, atOnce: 1 });
});

test("a key that is revoked while another is looked up is seen revoked by whoever asks from then on", async () => {
  const { key } = await issueKey(store, system, {
    kind: "live",
    tenant: "default",
    name: "",
    scopes: secretScopes,
    expireMs: null,
  });
  const first = store.registry.findApiKey("0000000000");
  await store.registry.revokeApiKey(key.id, 5_000);
  const [, found] = await Promise.all([first, store.registry.findApiKey(key.id)]);
  expect(found?.revokeMs).toBe(5_000);
});

const insert = {
  name: "insert",
  text: "INSERT INTO key_origins (origin, end_ms, key_id) VALUES ($1, $2, '0000000000')",
};

test("one key that many ask for at once is read by itself", async () => {
  const spec = { kind: "live", tenant: "default", name: "", scopes: secretScopes, expireMs: null } as const;
  const [{ key: one }, { key: other }] = [await issueKey(store, system, spec), await issueKey(store, system, spec)];
  asked = [];
  const ids = [one.id, ...Array(50).fill(one.id), one.id] as string[];
  const found = await Promise.all(ids.map((id) => store.registry.findApiKey(id)));
  expect(found.map((key) => key?.id)).toEqual(ids);
  expect(asked).toEqual(["api-key", "api-key"]);
  await Promise.all([...ids, other.id].map((id) => store.registry.findApiKey(id)));
  expect(asked.slice(2)).toEqual(["api-key", "api-key-for-each"]);
});
