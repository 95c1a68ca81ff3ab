/**
 * The acts on prefixes. Sends and ends of verifications count at them within their own acts (apply.ts).
 */
import { auditEntry, prefixStory } from "../../otp/operators/audit.ts";
import { decisionsMax, newPrefix } from "../../otp/limits/pumping-guard.ts";
import { changePrefix } from "../apply.ts";
import type { Engine } from "../engine.ts";
import { decisionColumns, passed, toDecision, type DecisionRow } from "../rows/prefix.ts";
import { list } from "../statement.ts";
import type { PrefixName, Store, SuspectKey } from "../store.ts";
import type { Instant } from "../../system.ts";

/** Suspects go by an index of just what they ask for: of decisions that are not `passed`. */
export const suspectsText = `SELECT tenant, prefix, max(at_ms) AS latest_ms FROM prefix_decisions
      WHERE ($1 = '' OR tenant = $1) AND kind <> ${passed} GROUP BY tenant, prefix
      HAVING max(at_ms) < $2 OR (max(at_ms) = $2 AND (tenant > $3 OR (tenant = $3 AND prefix > $4)))
      ORDER BY latest_ms DESC, tenant, prefix LIMIT $5`;

const sql = {
  decisions: {
    name: "prefix-decisions",
    text: `SELECT ${list(decisionColumns)} FROM prefix_decisions WHERE tenant = $1 AND prefix = $2
      ORDER BY id DESC LIMIT $3`,
  },
  suspects: {
    name: "suspects",
    text: suspectsText,
  },
} as const;

/** Before every decision there is. */
const newest: SuspectKey = { tenant: "", prefix: "", latestMs: Number.MAX_SAFE_INTEGER };

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

    async findSuspects({ tenant = "", after = newest, max }) {
      const values = [tenant, after.latestMs, after.tenant, after.prefix, max];
      const rows = await engine.longRead<PrefixName & { readonly latest_ms: Instant }>(sql.suspects, values);
      return rows.map(({ latest_ms: latestMs, ...name }) => ({ ...name, latestMs }));
    },

    async readPrefix({ tenant, prefix }) {
      const record = await engine.readPrefix({ tenant, prefix });
      const found = await engine.query<DecisionRow>(sql.decisions, [tenant, prefix, decisionsMax]);
      if (record === undefined && found.length === 0) return undefined;
      return { record: record ?? newPrefix, decisions: found.map(toDecision) };
    },
  } satisfies Partial<Store>;
}
