/**
 * The store's contract: statistics. What is read must be what a scan of all verifications says, however far summing has come.
 */
import { describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { decideReport, decideSettle } from "../../src/otp/decisions/settlement.ts";
import {
  dimensions,
  grouped,
  hourOf,
  measures,
  merge,
  tally,
  type Dimension,
  type Interval,
  type StatsRow,
  type SumRow,
  type SumsQuery,
} from "../../src/otp/operators/statistics.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { ann, testCharge, type Acts } from "./acts.ts";
import type { StoreFixture, WithStore } from "./contract.ts";

const dayMs = 86_400_000;
const retentionMs = dayMs;
const minuteMs = 60_000;
const everyHour: SumsQuery = { fromHour: 0, toHour: 10_000_000, interval: "hour", groupBy: dimensions };

/** Rows as they are compared: without what is 0. */
function shown(rows: readonly StatsRow[]) {
  return rows
    .map(({ sums, costs, ...of }) => ({
      ...of,
      sums: Object.fromEntries(measures.filter((each) => (sums[each] ?? 0) !== 0).map((each) => [each, sums[each]])),
      costs: Object.fromEntries(costs),
    }))
    .filter(({ sums }) => Object.keys(sums).length > 0);
}

async function readBy(store: Store, query: SumsQuery) {
  return shown((await store.statistics.readSums(query, 20_000)) ?? []);
}

/** All by the hour; by the day it is the same, with days made of the hours here. */
async function readAll(store: Store) {
  const rows = (await store.statistics.readSums(everyHour, 20_000)) ?? [];
  const days = (await store.statistics.readSums({ ...everyHour, interval: "day" }, 20_000)) ?? [];
  const made = rows.map((row) => ({ ...row, hour: row.hour - (row.hour % 24), currency: "" }));
  const bare = (all: readonly StatsRow[]) => shown(all).map(({ costs: _costs, ...row }) => row);
  expect(bare(days)).toEqual(bare(grouped(made)));
  return shown(rows);
}

/** What a period says, and what the same sums say by themselves. */
async function readPeriod(store: Store, asked: Pick<SumsQuery, "interval" | "tenant">, groupBy: Dimension) {
  const hours = { fromHour: 0, toHour: 10_000_000, tenant: asked.tenant };
  const query = { ...hours, interval: asked.interval, groupBy, linesMax: 2 };
  const read = await store.statistics.readPeriod(query);
  const sums = (interval: Interval, by: readonly Dimension[]) => readBy(store, { ...hours, interval, groupBy: by });
  const lines = await sums(asked.interval, [groupBy]);
  const byGroup = await sums("all", [groupBy]);
  const most = byGroup
    .toSorted((a, b) => (b.sums["asked"] ?? 0) - (a.sums["asked"] ?? 0) || (a[groupBy] < b[groupBy] ? -1 : 1))
    .slice(0, 2);
  const linesOf = (rows: readonly Pick<StatsRow, Dimension | "hour" | "sums">[]) =>
    rows.map((row) => `${row.hour} ${row[groupBy]} ${row.sums.asked}`).toSorted();
  return {
    read: read && {
      byTime: shown(read.byTime),
      byGroup: shown(read.byGroup),
      byProvider: shown(read.byProvider),
      lines: linesOf(read.lines),
      refused: [...read.refused].map(String).toSorted(),
    },
    sums: {
      byTime: await sums(asked.interval, []),
      byGroup,
      byProvider: await sums("all", ["provider"]),
      lines: linesOf(
        lines.filter((row) => (row.sums["asked"] ?? 0) > 0 && most.some((each) => each[groupBy] === row[groupBy])),
      ),
      refused: ((await store.statistics.readRefusals({ ...hours, interval: "all", groupBy: [] })) ?? [])
        .map(({ reason, count }) => `${reason},${count}`)
        .toSorted(),
    },
  };
}

/** Verifications, and what a scan says of them; of those that are deleted, what the last scan before said. */
class Scan {
  readonly #of = new Map<string, { verification: Verification; rows: readonly SumRow[] }>();

  add(verification: Verification): void {
    this.#of.set(verification.id, { verification, rows: [] });
  }

  async rows(store: Store) {
    for (const [id, { verification }] of this.#of) {
      const found = await store.readVerification(verification.tenant, id);
      if (found === undefined) continue;
      const rows = (await store.readMessages(id)).flatMap((message) => tally(found, message, testCharge));
      this.#of.set(id, { verification, rows });
    }
    return shown(grouped(merge([...this.#of.values()].flatMap(({ rows }) => rows))));
  }
}

const accepted: SendOutcome = { kind: "accepted", providerMessageId: "m1" };
const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };

function settleBy(store: Store, acts: Acts, job: Job, provider: string, outcome: SendOutcome) {
  return store.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { outcome, provider, providers: 1, claimed: job.message }, acts.policy),
  );
}

function reportBy(store: Store, acts: Acts, job: Job, provider: string, delivery: "DELIVERED" | "UNDELIVERED") {
  const facts = { provider, providerMessageId: "m1", delivery, detail: undefined, providersOf: () => [provider] };
  return store.settleMessage(job.message, acts.phoneOf, (view) => decideReport(view, facts));
}

/** Has some of everything happen to new verifications. Resolves with those whose messages were accepted. */
async function someOfAll({ store, acts, system }: StoreFixture, scan: Scan, number: number): Promise<Job[]> {
  const left: Job[] = [];
  for (let i = 0; i < 8; i++) {
    const provider = i % 3 === 0 ? "two" : "one";
    const phone = `+3161${number}00000${i}` as E164;
    const tenant = i === 5 ? "shop" : "default";
    const job = await acts.send(phone, { tenant, region: i === 6 ? "DE" : "NL", channel: i === 4 ? "voice" : "sms" });
    scan.add(job.verification);
    await settleBy(store, acts, job, provider, i === 7 ? refused : accepted);
    if (i !== 7) left.push(job);
    system.advance(900);
    if (i < 2) await acts.guess(job.verification, acts.rightCode(job.verification));
    if (i === 2) for (let n = 0; n < 5; n++) await acts.guess(job.verification, acts.wrongCode(job.verification));
    if (i === 3) await acts.cancel(job.verification);
    if (i === 5) await reportBy(store, acts, job, provider, "DELIVERED");
  }
  const [first] = left.slice(-2);
  if (first === undefined) throw new Error("none was accepted");
  system.advance(minuteMs);
  const again = await acts.resend(first.verification);
  await settleBy(store, acts, again, "two", accepted);
  await acts.guess(first.verification, acts.rightCode(first.verification));
  const sandbox = await acts.send(ann, { tenant: "default+test" });
  await settleBy(store, acts, sandbox, "one", accepted);
  return left;
}

export function statisticsCases(withStore: WithStore): void {
  describe("statistics", () => {
    test(
      "say what a scan says, before, while and after rows are summed, and once they are deleted",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        const scan = new Scan();
        for (let round = 0; round < 3; round++) {
          await someOfAll(fixture, scan, round);
          expect(await readAll(store)).toEqual(await scan.rows(store));
          system.advance(25 * minuteMs);
          for (let sweeps = 0; sweeps < 3; sweeps++) {
            await store.sweep(3, retentionMs);
            expect(await readAll(store)).toEqual(await scan.rows(store));
          }
        }
        const before = await scan.rows(store);
        expect(before.length).toBeGreaterThan(5);
        system.advance(2 * dayMs);
        while ((await store.sweep(5, retentionMs)).more);
        const expired = await readAll(store);
        expect(await store.listVerifications(fixture.acts.refOf("+31610000000" as E164).indexes, 5)).toEqual([]);
        const total = (rows: typeof before, count: "asked" | "messages" | "cost") =>
          rows.reduce((sum, { sums }) => sum + (sums[count] ?? 0), 0);
        for (const count of ["asked", "messages", "cost"] as const)
          expect(total(expired, count)).toBe(total(before, count));
        expect(total(expired, "asked")).toBe(24);
      }),
    );

    test(
      "have a report that comes after its verification was summed, once, and in the hour of the verification",
      withStore(async (fixture) => {
        const { store, acts, system } = fixture;
        const scan = new Scan();
        const left = await someOfAll(fixture, scan, 0);
        system.advance(3 * 60 * minuteMs);
        while ((await store.sweep(100, retentionMs)).more);
        expect(await readAll(store)).toEqual(await scan.rows(store));
        for (const [i, job] of left.entries()) {
          for (let times = 0; times < 2; times++)
            await reportBy(store, acts, job, i % 3 === 0 ? "two" : "one", i % 2 === 0 ? "DELIVERED" : "UNDELIVERED");
        }
        const late = await readAll(store);
        expect(late).toEqual(await scan.rows(store));
        expect(late.reduce((sum, { sums }) => sum + (sums["delivered"] ?? 0), 0)).toBe(5);
        system.advance(2 * dayMs);
        while ((await store.sweep(100, retentionMs)).more);
        expect(await readAll(store)).toEqual(late);
      }),
    );

    test(
      "count each verification once, however many processes sum at the same moment, and while reports come",
      withStore(async (fixture) => {
        const { store, acts, system } = fixture;
        const scan = new Scan();
        const left = [...(await someOfAll(fixture, scan, 0)), ...(await someOfAll(fixture, scan, 1))];
        const others = [store, await fixture.beside(), await fixture.beside(), await fixture.beside()];
        system.advance(20 * minuteMs);
        await Promise.all([
          ...others.flatMap((each) => Array.from({ length: 5 }, () => each.sweep(4, retentionMs))),
          ...left.map((job, i) =>
            reportBy(others[i % 4] ?? store, acts, job, i % 3 === 0 ? "two" : "one", "DELIVERED"),
          ),
        ]);
        expect(await readAll(store)).toEqual(await scan.rows(store));
        while ((await store.sweep(4, retentionMs)).more);
        expect(await readAll(store)).toEqual(await scan.rows(store));
      }),
    );

    test(
      "come by hour, day or period, by what is asked, of one tenant or all, up to a number of rows",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        const scan = new Scan();
        await someOfAll(fixture, scan, 0);
        system.advance(30 * 60 * minuteMs);
        while ((await store.sweep(100, retentionMs)).more);
        await someOfAll(fixture, scan, 1);
        const whole = { ...everyHour, interval: "all", groupBy: [] } as const;
        expect(await readBy(store, whole)).toMatchObject([{ hour: 0, tenant: "", sums: { asked: 16, verified: 6 } }]);
        const byDay = await readBy(store, { ...everyHour, interval: "day", groupBy: ["tenant"] });
        expect(byDay.map(({ tenant, sums }) => [tenant, sums["asked"]])).toEqual([
          ["default", 7],
          ["shop", 1],
          ["default", 7],
          ["shop", 1],
        ]);
        expect(byDay.every(({ hour }) => hour % 24 === 0)).toBe(true);
        const ofShop = await readBy(store, { ...whole, tenant: "shop", groupBy: ["channel", "country"] });
        expect(ofShop).toMatchObject([{ channel: "sms", country: "NL", sums: { asked: 2, delivered: 2 } }]);
        const byChannel = await readBy(store, { ...whole, groupBy: ["channel"] });
        expect(byChannel.map(({ channel, sums }) => [channel, sums["asked"]])).toEqual([
          ["sms", 14],
          ["voice", 2],
        ]);
        await store.statistics.addRefusals([
          { hour: hourOf(system.now()), tenant: "shop", reason: "OTP_LOCKED", count: 2 },
        ]);
        for (const [interval, dimension, tenant] of [
          ["hour", "country", undefined],
          ["day", "channel", "shop"],
          ["hour", "provider", undefined],
          ["day", "tenant", undefined],
        ] as const) {
          const { read, sums } = await readPeriod(store, { interval, tenant }, dimension);
          expect(read).toEqual(sums);
        }
        const now = hourOf(system.now());
        expect(await readBy(store, { ...whole, fromHour: now, toHour: now + 1 })).toMatchObject([
          { sums: { asked: 8 } },
        ]);
        expect(await store.statistics.readSums({ ...whole, groupBy: ["tenant"] }, 1)).toBeUndefined();
        expect(await store.statistics.readSums({ ...whole, groupBy: ["tenant"] }, 2)).toHaveLength(2);
      }),
    );

    test(
      "are kept for 400 days, and with them how often calls were refused",
      withStore(async (fixture) => {
        const { store, system, reopen } = fixture;
        await someOfAll(fixture, new Scan(), 0);
        const hour = hourOf(system.now());
        const refusal = { hour, tenant: "default", reason: "PHONE_RATE_LIMITED", count: 2 };
        await store.statistics.addRefusals([refusal, { ...refusal, tenant: "shop", reason: "CODE_MISMATCH" }]);
        await store.statistics.addRefusals([{ ...refusal, count: 3 }]);
        system.advance(399 * dayMs);
        while ((await store.sweep(100, retentionMs)).more);
        const later = await reopen();
        const hours = { fromHour: hour, toHour: hour + 1 };
        expect(await later.statistics.readRefusals({ ...hours, tenant: "default" })).toEqual([
          { ...refusal, count: 5 },
        ]);
        expect(await later.statistics.readRefusals(hours)).toHaveLength(2);
        const day = hour - (hour % 24);
        const [ofDay, ofAll] = await Promise.all([
          later.statistics.readRefusals({ ...hours, interval: "day", groupBy: [] }),
          later.statistics.readRefusals({
            ...hours,
            fromHour: 0,
            interval: "all",
            groupBy: ["tenant"],
            tenant: "shop",
          }),
        ]);
        expect(ofDay?.toSorted((a, b) => a.count - b.count)).toEqual([
          { hour: day, tenant: "", reason: "CODE_MISMATCH", count: 2 },
          { hour: day, tenant: "", reason: "PHONE_RATE_LIMITED", count: 5 },
        ]);
        expect(ofAll).toEqual([{ hour: 0, tenant: "shop", reason: "CODE_MISMATCH", count: 2 }]);
        const wholeDay = { fromHour: day, toHour: day + 24, interval: "all", tenant: "default" } as const;
        expect(await later.statistics.readRefusals(wholeDay)).toEqual([{ ...refusal, hour: 0, count: 5 }]);
        expect((await readAll(later)).length).toBeGreaterThan(0);
        system.advance(2 * dayMs);
        while ((await later.sweep(100, retentionMs)).more);
        expect(await readAll(later)).toEqual([]);
        expect(await later.statistics.readRefusals(hours)).toEqual([]);
      }),
    );
  });
}
