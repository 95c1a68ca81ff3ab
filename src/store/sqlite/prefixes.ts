/**
 * What the pumping guard keeps, on SQLite. All of it runs within an act: at most one read and one write for each send and
 * for each end of a verification, and a row more for each decision, of which there is one in 30 sends at most.
 */
import { decisionsMax, mature, newPrefix, type PrefixChange, type PrefixRecord } from "../../otp/pumping-guard.ts";
import type { Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { Recent } from "./recent.ts";
import { decisionValues, prefixValues, toDecision, toPrefix } from "../rows/prefix.ts";
import type { prepare } from "./statements.ts";
import type { PrefixName, PrefixNews, PrefixRef, PrefixView } from "../store.ts";

const none: readonly PrefixNews[] = [];
/** Some 300 bytes each. */
const recentMax = 4_096;

export function createPrefixes(sql: ReturnType<typeof prepare>) {
  let news: PrefixNews[] = [];
  const recent = new Recent<PrefixRecord>(recentMax);
  const keyOf = ({ tenant, prefix }: PrefixName) => `${tenant} ${prefix}`;

  function load(name: PrefixName): PrefixRecord {
    const known = recent.get(keyOf(name));
    if (known !== undefined) return known;
    const row = sql.prefix.get(name.tenant, name.prefix);
    const record = row === undefined ? newPrefix : toPrefix(row);
    recent.set(keyOf(name), record);
    return record;
  }

  function put(name: PrefixName, { record, decisions }: PrefixChange): void {
    sql.putPrefix.run(...prefixValues(name, record));
    recent.set(keyOf(name), record);
    for (const decision of decisions) {
      sql.insertPrefixDecision.run(...decisionValues(name, decision));
      const { tenant, prefix } = name;
      sql.trimPrefixDecisions.run(tenant, prefix, tenant, prefix, decisionsMax);
      news.push({ ...name, decision });
    }
  }

  return {
    load,
    put,

    delete(name: PrefixName): void {
      sql.deletePrefix.run(name.tenant, name.prefix);
      recent.delete(keyOf(name));
    },

    forget(): void {
      recent.clear();
    },

    view(name: PrefixName): PrefixView | undefined {
      const row = sql.prefix.get(name.tenant, name.prefix);
      const decisions = sql.prefixDecisions.all(name.tenant, name.prefix, decisionsMax).map(toDecision);
      if (row === undefined && decisions.length === 0) return undefined;
      return { record: row === undefined ? newPrefix : toPrefix(row), decisions };
    },

    /** Counts the outcome of a verification that has ended in this very act. */
    mature(ended: Verification, ref: PrefixRef | undefined, now: Instant): void {
      const name = ended.tally === "none" ? undefined : ref?.name();
      if (ref === undefined || name === undefined) return;
      const change = mature(load(name), ended, now, ref.enforced);
      if (change !== undefined) put(name, change);
    },

    /** The decisions that were written since it was asked last. */
    takeNews(): readonly PrefixNews[] {
      // Not the list itself while it is empty: what the next act writes would be told by both.
      if (news.length === 0) return none;
      const taken = news;
      news = [];
      return taken;
    },
  };
}
