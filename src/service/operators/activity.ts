/**
 * What happens on this instance, for whoever watches: told as it happens, kept nowhere. Each watcher gets 20 activities a second
 * and holds as many until they are taken, some 8 KB at the very most; the rest is counted. Without a watcher nothing is made.
 */
import { maskPhone, type E164 } from "../../otp/phone-number.ts";
import { isSandbox } from "../../otp/message/sandbox.ts";
import { requestRef } from "../../otp/verification/verification.ts";
import { secondMs, type Instant, type System } from "../../system.ts";

export const activityKinds = [
  "send",
  "resend",
  "fallback",
  "call",
  "report",
  "guess",
  "end",
  "refused",
  "fraud",
  "spend",
];

/** What happened. Every text is short. */
export interface Happened {
  /** Whose; empty for nobody's. */
  readonly tenant: string;
  readonly kind: string;
  readonly outcome: string;
  /** The verification it is about: its id, and how to read its phone. Asked only where somebody watches. */
  readonly verification?: { readonly id: string; readonly region: string } | undefined;
  readonly phone?: (() => E164 | undefined) | undefined;
  /** Where only the reference is known, such as of a call that was refused before its verification was read. */
  readonly requestRef?: string | undefined;
  readonly prefix?: string;
  readonly country?: string;
  readonly channel?: string;
  readonly provider?: string;
}

export interface Activity {
  readonly atMs: Instant;
  readonly tenant: string;
  readonly kind: string;
  readonly outcome: string;
  readonly requestRef: string;
  readonly phone: string;
  readonly country: string;
  readonly channel: string;
  readonly provider: string;
}

/** What happened since the last one. Both are empty every 15 s in which nothing did. */
export interface ActivityBatch {
  readonly activities: readonly Activity[];
  readonly omitted: number;
}

/** What is watched; undefined and empty for all. */
export interface Watching {
  readonly tenant?: string | undefined;
  readonly kinds: readonly string[];
  readonly country: string;
}

export interface Activities {
  tell(happened: Happened): void;
  /** Gives what happens from now on until `signal` ends. */
  watch(watching: Watching, signal: AbortSignal): AsyncGenerator<ActivityBatch, void, undefined>;
  /** How many watch. Whoever has something to tell looks at it first: mostly nobody does. */
  readonly watchers: number;
}

const perSecondMax = 20;
const lifeSignMs = 15_000;
const textMax = 64;

interface Watcher {
  readonly watching: Watching;
  held: Activity[];
  omitted: number;
  /** The second under way, and how many were taken in it. */
  secondMs: Instant;
  taken: number;
  wake: () => void;
}

/** `onWatched` is told when the first watcher has come, and when the last one has gone. */
export function createActivities(
  system: Pick<System, "now" | "after">,
  onWatched: (isWatched: boolean) => void = () => {},
): Activities {
  const watchers = new Set<Watcher>();

  /** Resolves when something is held, after `ms`, or when nobody waits any more. */
  function next(watcher: Watcher, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        watcher.wake = () => {};
        resolve();
      };
      const cancel = system.after(ms, end);
      signal.addEventListener("abort", end);
      watcher.wake = end;
    });
  }

  const book = {
    watchers: 0,

    tell(happened: Happened): void {
      if (watchers.size === 0 || isSandbox(happened.tenant)) return;
      const now = system.now();
      let made: Activity | undefined;
      for (const watcher of watchers) {
        if (!isWatched(happened, watcher.watching)) continue;
        if (!hasRoom(watcher, now)) {
          watcher.omitted += 1;
          continue;
        }
        made ??= activityOf(happened, now);
        watcher.held.push(made);
        watcher.wake();
      }
    },

    async *watch(watching: Watching, signal: AbortSignal): AsyncGenerator<ActivityBatch, void, undefined> {
      const watcher: Watcher = { watching, held: [], omitted: 0, secondMs: 0, taken: 0, wake: () => {} };
      watchers.add(watcher);
      book.watchers += 1;
      if (book.watchers === 1) onWatched(true);
      const leave = () => {
        if (!watchers.delete(watcher)) return;
        book.watchers -= 1;
        if (book.watchers === 0) onWatched(false);
      };
      // Who takes nothing any more asks for nothing either, and this would never go on.
      signal.addEventListener("abort", leave, { once: true });
      try {
        // At once: whoever watches knows that he does.
        yield { activities: [], omitted: 0 };
        while (!signal.aborted) {
          if (watcher.held.length === 0) await next(watcher, watcher.omitted > 0 ? secondMs : lifeSignMs, signal);
          if (signal.aborted) return;
          const { held: activities, omitted } = watcher;
          watcher.held = [];
          watcher.omitted = 0;
          yield { activities, omitted };
        }
      } finally {
        signal.removeEventListener("abort", leave);
        leave();
      }
    },
  };
  return book;
}

function isWatched({ tenant, kind, verification, country }: Happened, watching: Watching): boolean {
  if (watching.tenant !== undefined && watching.tenant !== tenant) return false;
  if (watching.kinds.length > 0 && !watching.kinds.includes(kind)) return false;
  return watching.country === "" || watching.country === (country ?? verification?.region);
}

/** Takes a place among those of this second, if there is one. */
function hasRoom(watcher: Watcher, now: Instant): boolean {
  if (now - watcher.secondMs >= secondMs) {
    watcher.secondMs = now;
    watcher.taken = 0;
  }
  if (watcher.taken >= perSecondMax || watcher.held.length >= perSecondMax) return false;
  watcher.taken += 1;
  return true;
}

function activityOf({ tenant, kind, outcome, verification, phone, prefix, ...more }: Happened, now: Instant): Activity {
  const e164 = phone?.();
  return {
    atMs: now,
    tenant,
    kind,
    outcome: outcome.slice(0, textMax),
    requestRef: (verification && requestRef(verification.id)) ?? more.requestRef ?? "",
    phone: e164 === undefined ? (prefix === undefined ? "" : `${prefix}••••`) : maskPhone(e164),
    country: more.country ?? verification?.region ?? "",
    channel: more.channel ?? "",
    provider: more.provider ?? "",
  };
}
