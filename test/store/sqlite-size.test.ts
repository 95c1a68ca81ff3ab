/**
 * How much room a pending verification takes in a SQLite file, with all its rows and their places in indexes.
 */
import Sqlite from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { decideReport, decideSettle } from "../../src/otp/decisions/settlement.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { createActs, type Acts } from "./acts.ts";

const count = 2_000;
const provider = "messagebird";

test("a pending verification whose message was delivered takes at most 600 bytes", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const store = await openSqlite({ path, system, exclusive: true });
  try {
    const acts: Acts = createActs(store, system);
    const bytesOfAll = () => {
      const db = new Sqlite(path);
      db.pragma("wal_checkpoint(TRUNCATE)");
      const bytes = db.prepare<[], number>("SELECT sum(pgsize) FROM dbstat").pluck().get() ?? 0;
      db.close();
      return bytes;
    };
    const before = bytesOfAll();
    await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const { message } = await acts.send(`+316${10_000_000 + i * 3_331}` as E164);
        const providerMessageId = Buffer.from(system.randomBytes(16)).toString("hex");
        await store.settleMessage(message, acts.phoneOf, (view) =>
          decideSettle(
            view,
            { outcome: { kind: "accepted", providerMessageId }, provider, providers: 1, claimed: message },
            acts.policy,
          ),
        );
        const said = { delivery: "DELIVERED", providerMessageId, detail: undefined, provider } as const;
        await store.settleMessage(message, acts.phoneOf, (view) =>
          decideReport({ ...view, now: view.now + 4_000 }, { ...said, providersOf: () => [provider] }),
        );
      }),
    );
    const each = (bytesOfAll() - before) / count;
    expect(each).toBeLessThanOrEqual(600);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
