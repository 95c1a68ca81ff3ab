/**
 * The acts on prefixes. Sends and ends of verifications count at them within their own acts (apply.ts).
 */
import { auditEntry, prefixStory } from "../../otp/audit.ts";
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
    changePrefix(name, change, note) {
      return engine.perform({
        prefix: () => name,
        run(unit) {
          const before = unit.prefix(name);
          const changed = change(before, unit.now);
          if (changed === undefined) return false;
          changePrefix(unit, name, changed);
          if (note === undefined) return true;
          const told = { before: prefixStory(before), after: prefixStory(changed.record) };
          unit.note(auditEntry(note, { tenant: name.tenant, subject: name.prefix, ...told }, unit.now));
          return true;
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
