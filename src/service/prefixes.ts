/**
 * What an operator asks of the pumping guard: what it knows of a prefix and why it decided as it did, and to lift a trip.
 */
import { recall, unblock, type GuardMode, type PrefixDecision, type PrefixRecord } from "../otp/pumping-guard.ts";
import type { PrefixName, Store } from "../store/store.ts";

/** What is known of a prefix now. */
export interface PrefixReport extends PrefixName {
  readonly record: PrefixRecord;
  /** The latest first. */
  readonly decisions: readonly PrefixDecision[];
  /** Whether a trip's time is over, and the next send would be a probe. */
  readonly isDue: boolean;
}

/** Reads all there is to say about a prefix; undefined when nothing is known of it. */
export async function explainPrefix(store: Store, name: PrefixName): Promise<PrefixReport | undefined> {
  const view = await store.readPrefix(name);
  if (view === undefined) return undefined;
  const now = store.now();
  const record = recall(view.record, now);
  return { ...name, record, decisions: view.decisions, isDue: record.phase === "tripped" && now >= record.untilMs };
}

/** Lifts a trip at once; false when the prefix is not tripped. */
export function unblockPrefix(store: Store, name: PrefixName, mode: GuardMode): Promise<boolean> {
  return store.changePrefix(name, (record, now) => unblock(record, now, mode === "enforce"));
}
