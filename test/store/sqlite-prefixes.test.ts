/**
 * What a SQLite store tells of decisions about prefixes: each once, when it is durable, and none that was taken back. And
 * that a row whose number cannot be read stands in nobody's way.
 */
import Database from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newPrefix, type PrefixDecision } from "../../src/otp/pumping-guard.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { NamedDecision } from "../../src/store/store.ts";
import { createManualSystem, testEpochMs } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, ben, createActs, ringOf } from "./acts.ts";

const name = { tenant: "default", prefix: "+3161234" };
const decision: PrefixDecision = {
  kind: "unblocked",
  atMs: testEpochMs,
  matured: 0,
  verified: 0,
  refused: 2,
  untilMs: null,
  enforced: true,
};

test("a decision is told once, after its commit; one whose act failed is never told", async () => {
  const folder = temporaryFolder();
  const received: NamedDecision[] = [];
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const store = await openSqlite({
    path,
    system,
    exclusive: false,
    onPrefix: (made) => void received.push(made),
  });
  const change = (...decisions: PrefixDecision[]) => store.changePrefix(name, () => ({ record: newPrefix, decisions }));
  // The second is written after the first, and no database takes a moment that is no number.
  await expect(change(decision, { ...decision, atMs: Number.NaN })).rejects.toThrow("NOT NULL");
  await store.ping();
  expect(received).toEqual([]);
  expect(await store.readPrefix(name)).toBeUndefined();
  await change(decision);
  await store.ping();
  expect(received).toEqual([{ ...name, decision }]);
  await store.close();
  rmSync(folder, { recursive: true });
});

test.each([[[1]], [[2, 1]]])(
  "a damaged number holds up no sweep and no outbox, under master keys %j",
  async (bytes) => {
    const folder = temporaryFolder();
    const path = join(folder, "otp.db");
    const system = createManualSystem();
    const store = await openSqlite({ path, system, exclusive: false });
    const acts = createActs(store, system, ringOf(...bytes));
    const damaged = await acts.send(ann);
    const whole = await acts.send(ben);
    const db = new Database(path);
    db.prepare("UPDATE verifications SET phone_box = zeroblob(28) WHERE id = ?").run(
      Buffer.from(damaged.verification.id, "base64url"),
    );
    db.close();
    system.advance(600_000);
    // Both are too late to be sent, which ends what they are of.
    expect(await acts.claim()).toEqual([]);
    expect(await store.nextDue()).toBeUndefined();
    expect(await store.sweep(10, 3_600_000, acts.phoneOf)).toMatchObject({ expired: 2 });
    for (const { verification } of [damaged, whole]) {
      expect(await acts.read(verification)).toMatchObject({ state: "EXPIRED", salt: null });
    }
    await store.close();
    rmSync(folder, { recursive: true });
  },
);
