/**
 * What an operator does about prefixes: asks what the pumping guard and the lists say of a destination and why, ends
 * what blocks it, and has a tenant's guard enforce or observe.
 */
import { noteOf, type Author } from "../../otp/operators/audit.ts";
import { isPrefix, type Destination } from "../../otp/verification/destination.ts";
import { parsePhoneNumber } from "../../otp/phone-number.ts";
import {
  endsCount,
  recall,
  unblock,
  type GuardMode,
  type PrefixDecision,
  type PrefixRecord,
} from "../../otp/limits/pumping-guard.ts";
import type { PrefixName, Store, SuspectKey } from "../../store/store.ts";
import { removeDestination, type ListAuthor } from "./destinations.ts";
import { prefixName } from "../phone-refs.ts";
import type { Money } from "./statistics.ts";

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

/** What enforcing would have saved at a prefix, or has, as far as it is kept. `each` is what one message costs. Pure. */
export function savedBy({ record, decisions }: PrefixReport, each: Money | undefined) {
  const closing = decisions.filter(endsCount);
  const messages = closing.reduce((sum, { refused }) => sum + refused, record.refused);
  return { messages, cost: each && { ...each, micros: each.micros * messages } };
}

/** Prefixes that are read at once: on PostgreSQL in few round trips, on SQLite in about a millisecond. */
const readAtOnce = 10;

export interface Suspects {
  readonly reports: readonly PrefixReport[];
  /** Where the next page begins; undefined at the end. */
  readonly next: SuspectKey | undefined;
}

/** Finds a page of prefixes that are refused, would be or were, those of the latest decisions first. */
export async function findSuspects(store: Store, query: Parameters<Store["findSuspects"]>[0]): Promise<Suspects> {
  const { max } = query;
  const found = await store.findSuspects({ ...query, max: max + 1 });
  const shown = found.slice(0, max);
  const reports: PrefixReport[] = [];
  for (let from = 0; from < shown.length; from += readAtOnce) {
    const some = shown.slice(from, from + readAtOnce);
    const read = await Promise.all(some.map(({ tenant, prefix }) => explainPrefix(store, { tenant, prefix })));
    reports.push(...read.filter((report) => report !== undefined));
    // What waits for the event loop goes first.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { reports, next: found.length > max ? found[max - 1] : undefined };
}

/** A number or a prefix that an operator names: its canonical text, and the prefix that the guard judges it by. */
export interface Named {
  readonly text: string;
  readonly isNumber: boolean;
  readonly name: PrefixName;
}

/**
 * Reads a number or a prefix, with the usual punctuation; undefined for what is neither. What no number plan has may be
 * either: it is a prefix where the guard knows it as one.
 */
export async function findNamed(store: Store, tenant: string, typed: string): Promise<Named | undefined> {
  const text = withoutPunctuation(typed);
  const prefix: Named = { text, isNumber: false, name: { tenant, prefix: text } };
  const parsed = parsePhoneNumber(typed);
  if (!parsed.ok) return isPrefix(text) ? prefix : undefined;
  const { e164, kind } = parsed.value;
  if (kind === "unknown" && (await store.readPrefix(prefix.name)) !== undefined) return prefix;
  return { text: e164, isNumber: true, name: prefixName(tenant, e164) };
}

/** The typed text without what may stand between digits. Pure. */
export function withoutPunctuation(typed: string): string {
  return typed.replaceAll(/[ ().-]/g, "");
}

export interface Listed {
  /** The entry that holds for it. */
  readonly entry: Destination | undefined;
  /** Of a prefix: longer entries, which hold for some of its numbers. */
  readonly longer: readonly Destination[];
}

/** Finds what a tenant's lists say of a destination. */
export async function entriesFor({ registry }: Pick<Store, "registry">, named: Named): Promise<Listed> {
  const { text, isNumber, name } = named;
  const entry = await registry.findDestination(name.tenant, text);
  const all = isNumber ? [] : await registry.listDestinations(name.tenant);
  return { entry, longer: all.filter(({ prefix }) => prefix.startsWith(text) && prefix !== text) };
}

/** Lifts a trip at once; false when the prefix is not tripped. */
export function unblockPrefix(store: Store, name: PrefixName, mode: GuardMode, by: Author): Promise<boolean> {
  return store.changePrefix(name, (record, now) => unblock(record, now, mode), noteOf(by, "guard.lift"));
}

/** What was lifted. */
export interface Lifted {
  readonly entryRemoved: boolean;
  readonly guardLifted: boolean;
}

/** Takes a destination's own entry from the block list, and lifts the guard's block of its prefix. Safe to repeat. */
export async function liftBlock(store: Store, named: Named, mode: GuardMode, author: ListAuthor): Promise<Lifted> {
  const { text, name } = named;
  const entryRemoved = await removeDestination(store, { tenant: name.tenant, prefix: text }, author, "block");
  return { entryRemoved, guardLifted: await unblockPrefix(store, name, mode, author.by) };
}

/** A tenant's settings with its guard's mode, or without one of its own, and the modes that hold before and then. Pure. */
export type WithGuard = (
  settings: string,
  mode: GuardMode | undefined,
) => { readonly settings: string; readonly before: GuardMode; readonly mode: GuardMode };

export interface GuardChange {
  readonly tenant: string;
  /** Undefined to leave it to the operator. */
  readonly mode: GuardMode | undefined;
  /** Whether an author may change one mode into another. */
  readonly may: (before: GuardMode, after: GuardMode) => boolean;
}

export type GuardSet =
  | { readonly kind: "set"; readonly mode: GuardMode }
  | { readonly kind: "no tenant" | "not allowed" };

/** Sets a tenant's own mode, or leaves it to the operator's. Writes nothing where nothing changes. */
export function setGuard(
  { registry }: Pick<Store, "registry">,
  { tenant: id, mode, may }: GuardChange,
  withGuard: WithGuard,
  by: Author,
): Promise<GuardSet> {
  return registry.changeTenant<GuardSet>(
    id,
    ({ tenant }) => {
      if (tenant === undefined) return { result: { kind: "no tenant" } };
      const changed = withGuard(tenant.settings, mode);
      if (!may(changed.before, changed.mode)) return { result: { kind: "not allowed" } };
      const result: GuardSet = { kind: "set", mode: changed.mode };
      const keep = { settings: changed.settings, disableMs: tenant.disableMs };
      return changed.settings === tenant.settings ? { result } : { keep, result };
    },
    noteOf(by, "guard.set"),
  );
}
