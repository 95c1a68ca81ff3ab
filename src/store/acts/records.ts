/**
 * The acts on records of Idempotency-Keys that are not a call's own.
 */
import { keyed, latestOf } from "../../otp/verification/idempotency.ts";
import type { Engine } from "../engine.ts";
import type { Store } from "../store.ts";

/** Those that are bare digests (`isBare`) have an index of their own, which is empty but for what earlier versions left. */
const bareFrom = {
  name: "bare-record-names",
  text: `SELECT slot FROM idempotency WHERE length(slot) = 16 AND slot > $1 ORDER BY slot LIMIT $2`,
};

export function recordActs(engine: Engine) {
  return {
    noteAnswer(slot, verificationId, answer) {
      return engine.perform({
        slot,
        run(unit) {
          const record = latestOf(unit.records(slot));
          if (record?.verificationId !== verificationId) return;
          if (answer === null) unit.deleteRecord(record.slot);
          else unit.putRecord({ ...record, answer });
        },
      });
    },

    async keySlots(from, max, slotOf) {
      const page = (await engine.query<{ slot: Uint8Array }>(bareFrom, [from, max])).map((row) => row.slot);
      const renamed = page.map((digest) => {
        const slot = slotOf(digest);
        return engine.perform({
          slot,
          run(unit) {
            const found = unit.records(slot);
            const record = keyed(slot, found, unit.now);
            if (record === undefined) return;
            for (const { slot: name } of found) unit.deleteRecord(name);
            unit.putRecord(record);
          },
        });
      });
      await Promise.all(renamed);
      return page.length < max ? undefined : page.at(-1);
    },
  } satisfies Partial<Store>;
}
