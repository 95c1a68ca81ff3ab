/**
 * What acts on SQLite cost that share a transaction, counted in statements; and what a statement costs, in plans.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Database } from "better-sqlite3";
import { expect, test } from "vitest";
import { openFile, openSqlite } from "../../src/store/sqlite/open.ts";
import { dueEvents, dueFallbacks, dueMessages, messagesOf, prepare } from "../../src/store/sqlite/statements.ts";
import { bindable } from "../../src/store/statement.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { beginCounting, counted } from "../../tools/bench/servers/counting.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { createActs, ringOf, testPolicy } from "./acts.ts";

/** How often statements ran that begin with a text. */
function timesOf(...beginnings: string[]): number[] {
  const texts = Object.entries(counted().byText);
  return beginnings.map((beginning) =>
    texts.reduce((sum, [text, times]) => sum + (text.startsWith(beginning) ? times : 0), 0),
  );
}

test("a batch writes what it changes many rows at a time, and a phone is read once for all its acts", async () => {
  const folder = temporaryFolder();
  const system = createManualSystem();
  const store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
  try {
    const acts = createActs(store, system);
    // 21 rows are written as 16, 4 and 1. What is kept of a phone is in its verification's row.
    const phones = Array.from({ length: 21 }, (_, i) => `+316${10_000_000 + i}` as E164);
    beginCounting();
    const sent = await Promise.all(phones.map((phone) => acts.send(phone)));
    const writes = ["INSERT INTO verifications", "INSERT INTO messages", "UPDATE verifications", "INSERT INTO buckets"];
    expect(timesOf("SELECT bucket", ...writes, "INSERT OR REPLACE")).toEqual([21, 3, 3, 0, 0, 0]);
    await Promise.all(sent.map(({ verification }) => acts.guess(verification, acts.rightCode(verification))));
    expect(timesOf("SELECT bucket", ...writes, "INSERT OR REPLACE")).toEqual([21, 3, 3, 21, 0, 0]);
    for (const phone of phones) expect((await acts.phone(phone)).history.refunds).toEqual([system.now()]);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
});

test("a batch writes each count once, asks for its guesses and lists once, and needs no savepoint", async () => {
  const folder = temporaryFolder();
  const system = createManualSystem();
  const store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
  try {
    const acts = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 100 });
    const phones = Array.from({ length: 16 }, (_, i) => `+316${10_000_000 + i}` as E164);
    const send = () => Promise.all(phones.map((phone) => acts.send(phone)));
    beginCounting();
    await send();
    expect(timesOf("BEGIN", "COMMIT", "SAVEPOINT", "PRAGMA data_version")).toEqual([1, 1, 0, 1]);
    expect(timesOf("INSERT INTO counters", "SELECT 1 FROM destinations", "SELECT coalesce(sum(wrong")).toEqual([
      1, 1, 1,
    ]);
    const sent = await send();
    expect(timesOf("BEGIN", "INSERT INTO counters", "SELECT 1 FROM dest", "SELECT coalesce(sum")).toEqual([2, 2, 1, 1]);
    await Promise.all(sent.map(({ verification }) => acts.guess(verification, acts.rightCode(verification))));
    expect(timesOf("BEGIN", "INSERT INTO guesses")).toEqual([3, 1]);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
});

test("what calls and polls ask for is planned once, not at each run", async () => {
  const folder = temporaryFolder();
  const db = await openFile(join(folder, "otp.db"), () => {});
  try {
    const { phoneRows } = prepare(db) as unknown as { readonly phoneRows: { readonly source: string } };
    const texts = [messagesOf, dueMessages, dueFallbacks, dueEvents].map((statement) => bindable(statement).text);
    // SQLite looks at what a bare LIMIT is bound to.
    const bare = "SELECT id FROM verifications LIMIT ?";
    expect(plannedAnew(db, [bare, phoneRows.source, ...texts])).toEqual([bare]);
  } finally {
    db.close();
    rmSync(folder, { recursive: true });
  }
});

/** Which texts are planned anew at their second run: a function that comes before it is known to later plans alone. */
function plannedAnew(db: Database, texts: readonly string[]): string[] {
  const asked = texts.map((text) => {
    const values = Array<string>((text.match(/\?/g) ?? []).length).fill("1");
    const statement = db.prepare(`SELECT coalesce('once', count(*)) FROM (${text})`).pluck();
    return { text, ask: () => statement.get(...values) };
  });
  expect(new Set(asked.map(({ ask }) => ask()))).toEqual(new Set(["once"]));
  db.function("coalesce", (_first: unknown, _second: unknown) => "anew");
  return asked.filter(({ ask }) => ask() === "anew").map(({ text }) => text);
}
