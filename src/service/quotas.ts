/**
 * Limits on callers, as against those on phones: of the calls from one address, of the calls with one API key, of the
 * keys that one address gets wrong. They are kept in this process's memory, so every instance has its own and a start
 * forgets them: they keep one caller from taking everybody's share, and a write for each call would cost more than the
 * calls they refuse. What costs money is limited in the store.
 *
 * A place is taken before anything is waited for, and given back afterwards; between a look and a later taking any number
 * of calls would slip through.
 */
import { giveBack, spend, type Limit } from "../otp/rate-limit.ts";
import { refuse, type Reason, type Refusal } from "../otp/reason.ts";
import type { Instant } from "../system.ts";
import { createMoments } from "./expiry-map.ts";

/** Sends and resends from one address: those that came to something. */
const addressSendLimit: Limit = { burst: 10, intervalMs: 60_000 };
/** All other calls from one address. And the sends and resends with a publishable key, whatever comes of them. */
const addressCallLimit: Limit = { burst: 60, intervalMs: 1_000 };

/** Buckets kept of each kind, about 100 bytes each. One that is full again needs no place. */
const bucketsMax = 100_000;

/** A place taken in a limit, or why there was none. */
export interface Place {
  readonly refusal: Refusal | undefined;
  /** Gives it back, once; without effect where there was none. */
  giveBack(): void;
}

/** The place of a call that no limit is for. */
export const unlimited: Place = { refusal: undefined, giveBack: () => {} };

/** Waits for a decision, and gives the place back unless a message came of it. */
export async function keptIfSpent<R extends { readonly kind: string }>(place: Place, deciding: Promise<R>): Promise<R> {
  let isSpent = false;
  try {
    const decided = await deciding;
    isSpent = decided.kind === "opened" || decided.kind === "resent";
    return decided;
  } finally {
    if (!isSpent) place.giveBack();
  }
}

/** One limit, and the buckets of those it holds for. */
export interface Quota {
  /** Takes a place in the bucket of this name. */
  take(name: string): Place;
}

export interface Quotas {
  /** A send or resend for an address, as a tenant's caller. IP_RATE_LIMITED when there are too many. */
  send(tenant: string, address: string): Place;
  /** Any other call for an address. Never given back. IP_RATE_LIMITED when there are too many. */
  call(tenant: string, address: string): Refusal | undefined;
  /** A send or resend, whatever will come of it. Never given back. IP_RATE_LIMITED when there are too many. */
  attempt(tenant: string, address: string): Refusal | undefined;
  /** Any call with an API key. KEY_RATE_LIMITED when there are too many. */
  key(id: string): Refusal | undefined;
}

/** Makes a limit; what goes beyond it is refused for `reason`. */
export function createQuota(limit: Limit, reason: Reason, now: () => Instant, entriesMax = bucketsMax): Quota {
  const tats = createMoments(entriesMax);
  return {
    take(name) {
      const takenMs = now();
      const spent = spend(limit, tats.get(name), takenMs);
      tats.set(name, spent.tatMs, takenMs);
      if (!spent.allowed)
        return { refusal: refuse(reason, { retryAfterMs: spent.retryAfterMs }).refusal, giveBack() {} };
      let isTaken = true;
      return {
        refusal: undefined,
        giveBack() {
          if (!isTaken) return;
          isTaken = false;
          const at = now();
          tats.set(name, giveBack(limit, tats.get(name), at, 1), at);
        },
      };
    },
  };
}

/** Makes the limits of one process. `keyLimit` is each API key's; undefined for none. */
export function createQuotas(now: () => Instant, keyLimit: Limit | undefined): Quotas {
  const sends = createQuota(addressSendLimit, "IP_RATE_LIMITED", now);
  const calls = createQuota(addressCallLimit, "IP_RATE_LIMITED", now);
  const attempts = createQuota(addressCallLimit, "IP_RATE_LIMITED", now);
  const keys = keyLimit === undefined ? undefined : createQuota(keyLimit, "KEY_RATE_LIMITED", now);
  // By tenant: a backend may name any address, and must not use up another tenant's callers.
  const nameOf = (tenant: string, address: string) => `${tenant} ${address}`;
  return {
    send: (tenant, address) => sends.take(nameOf(tenant, address)),
    call: (tenant, address) => calls.take(nameOf(tenant, address)).refusal,
    attempt: (tenant, address) => attempts.take(nameOf(tenant, address)).refusal,
    key: (id) => keys?.take(id).refusal,
  };
}
