/**
 * A verification's plan for falling back: by which channels the same code goes out next, and when, if it is not
 * verified. The plan is kept with the verification, so that it outlives a crash; falling-back.ts decides what becomes
 * of it.
 */
import type { Instant } from "../../system.ts";
import { channels as allChannels, type Channel } from "../channel.ts";

/** The shortest and the longest wait before the next channel. */
export const fallbackMsMin = 15_000;
export const fallbackMsMax = 120_000;
/** The wait where nothing else is said. */
export const fallbackMsDefault = 30_000;

export interface Fallback {
  /** The channels that are left, in their order. */
  readonly channels: readonly Channel[];
  /** The next message is owed so long after the one before it, 15 000 to 120 000. */
  readonly afterMs: number;
  /** When the next one is owed; null exactly where no channel is left. */
  readonly dueMs: Instant | null;
  /** Messages owed by fallback so far. Their copies come after the send's own, and before those of resends. */
  readonly owed: number;
  /** Copies that are proven never to have left, and whose budget is given back already. */
  readonly unsent: readonly number[];
}

/** Where to go on: the channels in their order, and how long each is waited for. */
export interface FallbackPlan {
  readonly channels: readonly Channel[];
  readonly afterMs: number;
}

/** The plan of a new verification that has channels to go on to. Pure. */
export function newFallback({ channels, afterMs }: FallbackPlan, now: Instant, lastMs: Instant): Fallback {
  return { channels, afterMs, dueMs: nextDueMs(afterMs, now, lastMs), owed: 0, unsent: [] };
}

/**
 * When the next message is owed: after the wait, or at `lastMs` where the wait would end when a message is of no use
 * any more. No channel is given less than the shortest wait. Pure.
 */
export function nextDueMs(afterMs: number, now: Instant, lastMs: Instant): Instant {
  return Math.min(now + afterMs, Math.max(now + fallbackMsMin, lastMs));
}

/** What stays once nothing is owed by fallback any more: what was. Pure. */
export function withoutNext(fallback: Fallback | null): Fallback | null {
  return fallback === null || fallback.dueMs === null ? fallback : { ...fallback, channels: [], dueMs: null };
}

/** The plan with the next message owed from now on, if there is to be one. Pure. */
export function hastened(fallback: Fallback | null, now: Instant): Fallback | null {
  if (fallback === null || fallback.dueMs === null) return fallback;
  return { ...fallback, dueMs: Math.min(fallback.dueMs, now) };
}

/** The channels of an operator's order that come after one of them; none for a channel that is not in it. Pure. */
export function channelsAfter(channel: Channel, { channels }: FallbackPlan): readonly Channel[] {
  const place = channels.indexOf(channel);
  return place < 0 ? [] : channels.slice(place + 1);
}

/** Reads an operator's order, `whatsapp>sms@30s`; undefined for anything else. `durationMs` reads what follows the `@`. */
export function parseFallback(
  text: string,
  durationMs: (text: string) => number | undefined,
): FallbackPlan | undefined {
  const [order = "", after = "", ...more] = text.split("@");
  const names = order.split(">").map((name) => name.trim().toLowerCase());
  const channels = allChannels.filter((channel) => names.includes(channel));
  const afterMs = durationMs(after.trim());
  const isOrder = more.length === 0 && names.length >= 2 && channels.length === names.length;
  if (!isOrder || afterMs === undefined || afterMs < fallbackMsMin || afterMs > fallbackMsMax) return undefined;
  return { channels: channels.toSorted((a, b) => names.indexOf(a) - names.indexOf(b)), afterMs };
}
