/**
 * The sample month: the same by the same seed, believable, and on either database what the store would have made of it.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isTrip } from "../../src/otp/limits/pumping-guard.ts";
import { hourOf } from "../../src/otp/operators/statistics.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import { fillSample } from "../../src/service/sample/fill.ts";
import { monthOf } from "../../src/service/sample/month.ts";
import { findSuspects } from "../../src/service/operators/prefixes.ts";
import { readStats } from "../../src/service/operators/statistics.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { sweepThrough } from "../../src/store/upkeep.ts";
import { ann, ben, createActs, ringOf, testPolicy } from "../store/acts.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { startPostgres, type PostgresServer } from "../support/databases/postgres.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";

const dayMs = 86_400_000;
const endMs = Date.UTC(2026, 10, 22, 15, 30);
const keys = ringOf(1);
const made = (seed: number) => monthOf({ seed, endMs, key: keys.current, keyIdOf: (tenant) => `key-${tenant}` });

describe("a sample month", () => {
  const month = made(1);
  const asked = (of: (row: (typeof month.sums)[number]) => boolean) =>
    month.sums.filter(of).reduce((sum, { sums }) => sum + (sums.asked ?? 0), 0);

  test("is the same by the same seed, and another by another", () => {
    expect(made(1)).toEqual(month);
    expect(made(2).sums).not.toEqual(month.sums);
  });

  test("has three tenants, five countries, an attack, an outage, and a day near the cap", () => {
    const named = (key: "tenant" | "country" | "provider") =>
      [...new Set(month.sums.map((row) => row[key]))].toSorted();
    expect(named("tenant")).toEqual(["demo-bank", "demo-clinic", "demo-shop"]);
    expect(named("country")).toEqual(["BE", "DE", "GB", "NL", "US"]);
    expect(named("provider")).toEqual(["", "bird", "messagebird"]);
    const dayOfAttack = hourOf(endMs - (endMs % dayMs) - 9 * dayMs);
    const isThen = ({ hour }: { readonly hour: number }) => hour >= dayOfAttack && hour < dayOfAttack + 24;
    expect(asked((row) => isThen(row) && row.country === "GB")).toBeGreaterThan(1_000);
    expect(month.prefixes.map(({ change }) => change.decisions.some(isTrip))).toEqual([true, true]);
    const outage = hourOf(endMs - (endMs % dayMs) - dayMs) + 14;
    const during = (provider: string) =>
      asked(({ hour, provider: by, channel }) => hour === outage && by === provider && channel === "sms");
    expect(during("messagebird")).toBeGreaterThan(0);
    expect(during("bird")).toBe(0);
    const bank = month.days.find(({ tenant }) => tenant === "demo-bank");
    expect((bank?.count ?? 0) / (bank?.cap ?? 1)).toBeGreaterThan(0.8);
    const { reason } = month.refusals.find((each) => each.reason === "SPEND_LIMIT") ?? {};
    expect(reason).toBe("SPEND_LIMIT");
  });

  test("has only what has ended, and stories of the last three days alone", () => {
    const ends = month.verifications.map(({ verification }) => verification.endMs ?? Number.POSITIVE_INFINITY);
    expect(Math.max(...ends)).toBeLessThanOrEqual(endMs);
    const opened = month.verifications.map(({ verification }) => verification.createMs);
    expect(Math.min(...opened)).toBeGreaterThan(endMs - 3 * dayMs);
    expect(month.verifications.every(({ verification }) => verification.salt === null)).toBe(true);
  });
});

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(["SQLite", "PostgreSQL"])("on %s", (kind) => {
  const open = async (system = createManualSystem(1, endMs)) => {
    const store: Store =
      kind === "SQLite"
        ? await openSqlite({ path: join(folder, `${Math.random()}.db`), system, exclusive: false })
        : await openOnPostgres({ url: await server.createDatabase(), system });
    const retentionMs = 3 * dayMs;
    const sweep = () => sweepThrough(store, system, { retentionMs, what: "found by time", onSwept: () => true });
    return { store, system, sweep, fill: () => fillSample({ store, system, keys, seed: 1, sweep }) };
  };
  const countsOf = async (store: Store, tenant?: string) => {
    const now = store.now();
    const asked = { fromMs: now - 40 * dayMs, toMs: now, interval: "all", groupBy: [], tenant } as const;
    const read = await readStats(store, asked);
    return read.ok ? (read.rows[0]?.sums ?? {}) : undefined;
  };

  test("is there once, with sums that stay as they are when all is swept", async () => {
    const { store, system, sweep, fill } = await open();
    const filled = await fill();
    expect(filled.kind).toBe("filled");
    expect(await fill()).toEqual({ kind: "there" });
    const before = await countsOf(store);
    expect(before).toMatchObject({ asked: "requests" in filled ? filled.requests : 0 });
    system.advance(4 * dayMs);
    await sweep();
    expect(await store.finding.findByTime(allTimes(store), { max: 10, rowsMax: 100 })).toMatchObject({
      verifications: [],
    });
    expect(await countsOf(store)).toEqual(before);
    await store.close();
  });

  test("has what each page of the console shows", async () => {
    const { store, fill } = await open();
    await fill();
    const { reports } = await findSuspects(store, { tenant: undefined, after: undefined, max: 10 });
    expect(reports.map(({ prefix }) => prefix)).toEqual(["+1415377", "+44740055"]);
    const tenants = await store.registry.listTenants();
    expect(tenants.map(({ id }) => id).toSorted()).toEqual(["default", "demo-bank", "demo-clinic", "demo-shop"]);
    expect(await store.registry.listApiKeys()).toHaveLength(5);
    const disabled = (await store.events.listEndpoints()).map(({ endpoint }) => String(endpoint.why));
    expect(disabled.toSorted()).toEqual(["failing", "null"]);
    const found = await store.finding.findByTime(allTimes(store), { max: 50, rowsMax: 5_000 });
    expect(found.verifications).toHaveLength(50);
    expect((await store.readMessages(found.verifications[0]?.id ?? "")).length).toBeGreaterThan(0);
    const all = { tenant: "", actor: "", subject: "", actorTenant: "", fromMs: 0, toMs: store.now() };
    const actions = await store.registry.findAudit({ ...all, action: "", max: 50 });
    expect(actions.map(({ entry }) => entry.action)).toContain("guard.set");
    const times = actions.map(({ entry }) => entry.atMs);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
    await store.close();
  });

  test("sums what the console has printed meanwhile, and what goes on ends as ever", async () => {
    const { store, system, sweep, fill } = await open();
    const acts = createActs(store, system, keys);
    const { verification } = await acts.send(ann);
    system.advance(3_600_000);
    const going = (await acts.send(ben)).verification;
    expect((await fill()).kind).toBe("filled");
    expect(await countsOf(store, "default")).toMatchObject({ asked: 2, expired: 1 });
    system.advance(3_600_000);
    await sweep();
    expect(await countsOf(store, "default")).toMatchObject({ asked: 2, expired: 2 });
    expect((await store.readVerification("default", going.id))?.state).toBe("EXPIRED");
    expect((await store.readVerification("default", verification.id))?.state).toBe("EXPIRED");
    await store.close();
  });

  test("is refused where a provider that really sends has taken a message, and nothing is written", async () => {
    const { store, system, fill } = await open();
    const acts = createActs(store, system, keys);
    const job = await acts.send(ann);
    const call = { outcome: { kind: "accepted" }, provider: "bird", providers: 1 } as const;
    await store.settleMessage(job.message, acts.phoneOf, (view) =>
      decideSettle(view, { ...call, claimed: job.message }, testPolicy),
    );
    expect(await fill()).toEqual({ kind: "occupied" });
    expect((await store.registry.listTenants()).map(({ id }) => id)).toEqual(["default"]);
    expect(await countsOf(store)).toMatchObject({ asked: 1 });
    await store.close();
  });
});

const allTimes = (store: Store) => ({
  tenants: undefined,
  state: undefined,
  fromMs: 0,
  toMs: store.now() + 1,
  after: undefined,
});
