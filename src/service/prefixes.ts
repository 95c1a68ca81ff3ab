/**
 * Prefixes, for the pumping guard: which sends it judges and where, and the acts of an operator, who asks what it knows of
 * a prefix and why it decided as it did, and who lifts a trip.
 */
import type { E164 } from "../otp/phone-number.ts";
import type { Policy } from "../otp/policy.ts";
import {
  prefixOf,
  recall,
  unblock,
  type GuardMode,
  type PrefixDecision,
  type PrefixRecord,
} from "../otp/pumping-guard.ts";
import { isSandbox } from "../otp/sandbox.ts";
import type { PrefixName, PrefixRef, Store } from "../store/store.ts";

/** Where the prefix of a phone is kept. The sandbox has none: nothing is sent there, and nothing can be pumped. */
export function prefixRef(policy: Policy, tenant: string, phone: () => E164 | undefined): PrefixRef | undefined {
  if (isSandbox(tenant)) return undefined;
  const name = () => {
    const e164 = phone();
    return e164 === undefined ? undefined : prefixName(tenant, e164);
  };
  return { name, enforced: policy.fraudGuard === "enforce" };
}

/**
 * Whether the guard judges a send. A known user has passed a first factor, so this lane always sends; and what is not
 * judged is not counted, else whoever has an account could verify a prefix clean. A number that the operator has allowed
 * is left alone by the decision, which knows the lists.
 */
export function isGuarded(knownUser: boolean): boolean {
  return !knownUser;
}

/** What is known of a prefix now. */
export interface PrefixReport extends PrefixName {
  readonly record: PrefixRecord;
  /** The latest first. */
  readonly decisions: readonly PrefixDecision[];
  /** Whether a trip's time is over, and the next send would be a probe. */
  readonly isDue: boolean;
}

/** The prefix of a number in a tenant. Pure. */
export function prefixName(tenant: string, e164: E164): PrefixName {
  return { tenant, prefix: prefixOf(e164) };
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
