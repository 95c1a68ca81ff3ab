/**
 * A phone is erased, on either database, under each listed master key, with two processes on it: what is gone, and what
 * stays.
 */
import Sqlite from "better-sqlite3";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commandLine, type AuditAction, type Noted } from "../../../src/otp/operators/audit.ts";
import { idempotencyClaim } from "../../../src/otp/verification/idempotency.ts";
import { cancelNoted } from "../../../src/service/cancel.ts";
import { readStats } from "../../../src/service/operators/statistics.ts";
import { changeText } from "../../../src/otp/operators/audit-words.ts";
import { erasePhone } from "../../../src/service/operators/erasure.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { StoreUnavailable, type Store } from "../../../src/store/store.ts";
import { wrongCodesOf } from "../../../src/otp/verification/policy.ts";
import { ann, ben, createActs, ringOf, testPolicy } from "../../store/acts.ts";
import { added, claimAll, endpointOf } from "../../store/endpoints.ts";
import { openOnPostgres } from "../../support/databases/opening.ts";
import { startPostgres, type PostgresServer } from "../../support/databases/postgres.ts";
import { createManualSystem } from "../../support/service/system.ts";
import { temporaryFolder } from "../../support/service/world.ts";

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
      kind === "SQLite" ? openSqlite({ path, system, exclusive: false }) : openOnPostgres({ url, system });
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
    const erased = await erasePhone(options, { phone: ann }, noted("phone.erase"));
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
    expect(await erasePhone(options, { phone: ann }, noted("phone.erase"))).toMatchObject({
      verifications: 0,
      canceled: 0,
      events: 0,
    });
    await store.close();
    await other.close();
    expect(kind === "SQLite" ? traces(path, old, claimed) : []).toEqual([]);
  });

  const opened = async (name: string) => {
    const system = createManualSystem();
    const store: Store =
      kind === "SQLite"
        ? await openSqlite({ path: join(folder, `${name}.db`), system, exclusive: false })
        : await openOnPostgres({ url: await server.createDatabase(), system });
    return { store, system, acts: createActs(store, system, ringOf(1), testPolicy, true) };
  };
  const auditOf = async ({ registry }: Store) => {
    const all = {
      tenant: "",
      actor: "",
      action: "",
      subject: "",
      actorTenant: "",
      fromMs: 0,
      toMs: Number.MAX_SAFE_INTEGER,
    };
    const found = await registry.findAudit({ ...all, max: 20 });
    return found.map(({ entry }) => entry);
  };
  const entriesOf = async (store: Store) => (await auditOf(store)).map(({ action }) => action);
  const changesOf = async (store: Store) => (await auditOf(store)).map(changeText);

  test("sums say after an erasure what they said before, of what was summed and of what was not", async () => {
    const { store, system, acts } = await opened("sums");
    const first = (await acts.send(ann)).verification;
    await acts.guess(first, acts.rightCode(first));
    system.advance(3_600_000);
    await store.sweep(100, 86_400_000, acts.phoneOf);
    const second = (await acts.send(ann)).verification;
    await acts.cancel(second);
    const sums = async () => {
      const now = store.now();
      const asked = { fromMs: now - 86_400_000, toMs: now, interval: "hour", groupBy: ["country", "channel"] } as const;
      return readStats(store, asked);
    };
    const before = await sums();
    expect(before).toMatchObject({ ok: true, rows: [{ sums: { verified: 1 } }, { sums: { canceled: 1 } }] });
    const options = { store, keys: acts.keys, phoneOf: acts.phoneOf };
    expect(await erasePhone(options, { phone: ann }, noted("phone.erase"))).toMatchObject({ verifications: 2 });
    expect(await sums()).toEqual(before);
    await store.close();
  });

  test("the entry of an operator's act is committed with what it tells of", async () => {
    const { store, acts } = await opened("noted");
    const { verification } = await acts.send(ann);
    const { keys, phoneOf } = acts;
    const cannot = () => Promise.reject(new StoreUnavailable("not now"));
    const deaf: Store = { ...store, updateVerification: cannot };
    await expect(cancelNoted({ store: deaf, phoneOf }, verification, noted("verification.cancel"))).rejects.toThrow(
      "not now",
    );
    await expect(erasePhone({ store: deaf, keys, phoneOf }, { phone: ann }, noted("phone.erase"))).rejects.toThrow(
      "not now",
    );
    expect(await entriesOf(store)).toEqual([]);
    await cancelNoted({ store, phoneOf }, verification, noted("verification.cancel"));
    // It has ended: nothing changes any more.
    await cancelNoted({ store, phoneOf }, verification, noted("verification.cancel"));
    expect(await entriesOf(store)).toEqual(["verification.cancel"]);
    // What is cut short has its entry as soon as anything was done.
    const halting: Store = { ...store, erasure: { erase: cannot } };
    await expect(erasePhone({ store: halting, keys, phoneOf }, { phone: ann }, noted("phone.erase"))).rejects.toThrow(
      "not now",
    );
    expect(await entriesOf(store)).toEqual(["phone.erase", "verification.cancel"]);
    const next = (await acts.send(ann)).verification;
    await acts.guess(next, acts.wrongCode(next));
    await store.resetPhone(acts.refOf(ann), noted("phone.reset"));
    expect(await entriesOf(store)).toEqual(["phone.reset", "phone.erase", "verification.cancel"]);
    expect(await changesOf(store)).toEqual(["wrong_codes: 1 → 0; limits_in_use: 2 → 0", "verifications: 1 → 0", ""]);
    await store.close();
  });
});

const noted = (action: AuditAction): Noted => ({
  note: { by: commandLine, action },
  audited: { tenant: "", subject: "it" },
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
