/**
 * The acts on prefixes. Sends and ends of verifications count at them within their own acts (apply.ts).
 */
import { decisionsMax, newPrefix } from "../../otp/pumping-guard.ts";
import { changePrefix } from "../apply.ts";
import type { Engine } from "../engine.ts";
import { decisionColumns, toDecision, type DecisionRow } from "../rows/prefix.ts";
import { list } from "../statement.ts";
import type { Store } from "../store.ts";

const sql = {
  decisions: {
    name: "prefix-decisions",
    text: `SELECT ${list(decisionColumns)} FROM prefix_decisions WHERE tenant = $1 AND prefix = $2
      ORDER BY id DESC LIMIT $3`,
  },
} as const;

export function prefixActs(engine: Engine) {
  return {
    changePrefix(name, change) {
      return engine.perform({
        prefix: () => name,
        run(unit) {
          const changed = change(unit.prefix(name), unit.now);
          if (changed !== undefined) changePrefix(unit, name, changed);
          return changed !== undefined;
        },
      });
    },

    async readPrefix({ tenant, prefix }) {
      const record = await engine.readPrefix({ tenant, prefix });
      const found = await engine.query<DecisionRow>(sql.decisions, [tenant, prefix, decisionsMax]);
      if (record === undefined && found.length === 0) return undefined;
      return { record: record ?? newPrefix, decisions: found.map(toDecision) };
    },
  } satisfies Partial<Store>;
}
