/**
 * A phone is erased, on either database, under each listed master key, with two processes on it: what is gone, and what
 * stays.
 */
import Sqlite from "better-sqlite3";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { idempotencyClaim } from "../../src/otp/idempotency.ts";
import { erasePhone } from "../../src/service/erasure.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { wrongCodesOf } from "../../src/otp/policy.ts";
import { ann, ben, createActs, ringOf, testPolicy } from "../store/acts.ts";
import { added, claimAll, endpointOf } from "../store/endpoints.ts";
import { startPostgres, type PostgresServer } from "../support/databases/postgres.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(["SQLite", "PostgreSQL"])("on %s", (kind) => {
  test("erasing takes all that a phone left but its counts, of every process's memory too", async () => {
    const system = createManualSystem();
    const path = join(folder, "otp.db");
    const url = kind === "SQLite" ? "" : await server.createDatabase();
    const open = (): Promise<Store> =>
      kind === "SQLite"
        ? openSqlite({ path, system, exclusive: false })
        : openPostgres({ url, system, clock: "system" });
    const [store, other] = [await open(), await open()];
    await store.registry.changeTenant("other", () => ({ keep: { settings: "{}", disableMs: null }, result: 0 }));
    await store.registry.putDestination({ tenant: "default", prefix: ann, verdict: "allow", note: "", createMs: 0 });
    await added(store, endpointOf("we_1"));
    const before = createActs(store, system, ringOf(1), testPolicy, true);
    const acts = createActs(store, system, ringOf(2, 1), testPolicy, true);
    const there = createActs(other, system, ringOf(2, 1), testPolicy, true);

    const claim = idempotencyClaim(acts.keys, { tenant: "default", keyId: "k", rpc: "SendOtp", key: "one" }, ["a"]);
    const old = (await before.send(ann)).verification;
    const claimed = (await acts.send(ann, { claim })).verification;
    const elsewhere = (await acts.send(ann, { tenant: "other" })).verification;
    const bens = (await acts.send(ben)).verification;
    // The other process knows it.
    await there.guess(claimed, there.wrongCode(claimed));
    await there.guess(old, there.wrongCode(old));
    const waiting = async () => (await store.events.countEvents(100)) > 0;
    expect(await waiting()).toBe(true);

    const options = { store, keys: acts.keys, phoneOf: acts.phoneOf };
    const erased = await erasePhone(options, ann);
    expect(erased).toMatchObject({ verifications: 3, canceled: 3, entries: [{ tenant: "default", prefix: ann }] });
    expect(erased.events).toBeGreaterThanOrEqual(4);
    for (const { id, tenant } of [old, claimed, elsewhere]) {
      expect(await store.readVerification(tenant, id)).toBeUndefined();
      expect(await store.readMessages(id)).toEqual([]);
      const scope = { tenant, id, slot: undefined, phoneOf: there.phoneOf };
      const seen = await other.updateVerification(scope, ({ verification }) => ({ writes: {}, result: verification }));
      expect(seen).toBeUndefined();
    }
    const left = await claimAll(store);
    expect(left.map(({ event }) => event.facts["request_id"])).toEqual([bens.id]);
    const again = await store.openVerification({ tenant: "default", slot: claim.slot, phone: undefined }, (view) => ({
      writes: {},
      result: view.record,
    }));
    expect(again).toBeUndefined();
    // Guessing does not begin anew.
    expect(wrongCodesOf((await there.phone(ann)).history, system.now())).toBe(2);
    expect(await store.readVerification("default", bens.id)).toMatchObject({ state: "PENDING" });
    expect(await erasePhone(options, ann)).toMatchObject({ verifications: 0, canceled: 0, events: 0 });
    await store.close();
    await other.close();
    expect(kind === "SQLite" ? traces(path, old, claimed) : []).toEqual([]);
  });
});

/** What of verifications is in the file yet, once its log is in it: of their ids and of the boxes of their phones. */
function traces(path: string, ...verifications: { readonly id: string; readonly phoneBox: Uint8Array }[]): string[] {
  const db = new Sqlite(path);
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
  const bytes = readFileSync(path);
  return verifications
    .filter(({ id, phoneBox }) => bytes.includes(Buffer.from(id, "base64url")) || bytes.includes(Buffer.from(phoneBox)))
    .map(({ id }) => id);
}
