/**
 * Limits on callers: the calls from one address, the calls with one API key, the wrong keys from one address. They are
 * in this process's memory: every instance has its own, and a start forgets them. They keep one caller from taking
 * everybody's share; a write for each call would cost more than the calls they refuse. The store limits what costs
 * money.
 *
 * A permit is taken before anything is waited for, and given back afterwards: between a look and a later taking any number
 * of calls would slip through.
 */
import type { ApiKey } from "../../otp/keys/api-key.ts";
import { giveBack, spend, type AddressLimits, type Limit } from "../../otp/limits/rate-limit.ts";
import { refuse, type Reason, type Refusal } from "../../otp/reason.ts";
import { tenantOfKey } from "../../otp/message/sandbox.ts";
import type { Instant } from "../../system.ts";
import { createExpiryMap } from "./expiry-map.ts";

/** In the sandbox nothing is sent or paid for, and a test run of a page asks from one machine all day. */
const pageTestLimit: Limit = { burst: 100, intervalMs: 1_000 };
const pageTestLimits: AddressLimits = { sends: pageTestLimit, calls: pageTestLimit };

/** Buckets kept of each kind, about 100 bytes each. A full bucket is not kept. */
const bucketsMax = 100_000;

/** A permit taken from a limit, or why there was none. */
export interface Permit {
  readonly refusal: Refusal | undefined;
  /** There would be none, had the guard refused nothing before: what it refuses gives its permit back. */
  readonly isBeyond?: boolean;
  /** Gives it back, once; without effect where there was none. What the guard refused counts for `isBeyond` for good. */
  giveBack(isByGuard?: boolean): void;
}

/** The permit of a call that has no limit. */
export const unlimited: Permit = { refusal: undefined, giveBack: () => {} };

/** Waits for a decision, and gives the permit back unless it led to a message. */
export async function keptIfSpent<R extends { readonly kind: string; readonly isByGuard?: boolean }>(
  permit: Permit,
  deciding: Promise<R>,
): Promise<R> {
  let decided: R | undefined;
  try {
    decided = await deciding;
    return decided;
  } finally {
    const isSpent = decided?.kind === "opened" || decided?.kind === "resent";
    if (!isSpent) permit.giveBack(decided?.isByGuard);
  }
}

/** One limit, and the buckets of those it holds for. */
export interface CallLimit {
  /** Takes one from the bucket of this name, for good; or tells why there is none. */
  spend(name: string): Refusal | undefined;
  /** Takes so many, the burst at most, with what gives them back. */
  take(name: string, count?: number): Permit;
  /** How long it would refuse what comes now, in milliseconds; 0 for not at all. Takes nothing. */
  waitMs(name: string): number;
}

/** With which key an address calls. */
type With = Pick<ApiKey, "kind" | "tenant">;

export interface CallLimits {
  /** A send or resend of so many messages for an address, as a tenant's caller. IP_RATE_LIMITED when there are too many. */
  send(key: With, address: string, messages?: number): Permit;
  /** Any other call for an address. Never given back. IP_RATE_LIMITED when there are too many. */
  call(key: With, address: string): Refusal | undefined;
  /**
   * A send or resend, whatever will come of it. Never given back. IP_RATE_LIMITED when there are too many, with the wait for
   * those that lead to a message, if that is longer.
   */
  attempt(key: With, address: string): Refusal | undefined;
  /** Any call with an API key. KEY_RATE_LIMITED when there are too many. */
  key(id: string): Refusal | undefined;
}

/** Makes a limit; what goes beyond it is refused for `reason`. */
export function createCallLimit(limit: Limit, reason: Reason, now: () => Instant, entriesMax = bucketsMax): CallLimit {
  const tats = createExpiryMap(entriesMax);

  function spendSome(name: string, count = 1): Refusal | undefined {
    const takenMs = now();
    const spent = spend(limit, tats.get(name), takenMs, count);
    tats.set(name, spent.tatMs, takenMs);
    return spent.allowed ? undefined : refuse(reason, { retryAfterMs: spent.retryAfterMs }).refusal;
  }

  return {
    spend: (name) => spendSome(name),
    waitMs(name) {
      const spent = spend(limit, tats.get(name), now());
      return spent.allowed ? 0 : spent.retryAfterMs;
    },
    take(name, wanted = 1) {
      const count = Math.min(wanted, limit.burst);
      const refusal = spendSome(name, count);
      let isTaken = refusal === undefined;
      return {
        refusal,
        giveBack() {
          if (!isTaken) return;
          isTaken = false;
          const at = now();
          tats.set(name, giveBack(limit, tats.get(name), at, count), at);
        },
      };
    },
  };
}

/** Makes the limits of one process: `key` is each API key's, undefined for none; `address` each address's. */
export function createCallLimits(
  now: () => Instant,
  { key, address }: { readonly key: Limit | undefined; readonly address: AddressLimits },
): CallLimits {
  const usual = createAddressLimits(now, address);
  const pageTests = createAddressLimits(now, pageTestLimits);
  const of = ({ kind }: With) => (kind === "pubtest" ? pageTests : usual);
  const keys = key === undefined ? undefined : createCallLimit(key, "KEY_RATE_LIMITED", now);
  // By tenant: a backend may name any address, and must not use up another tenant's callers.
  const nameOf = (caller: With, name: string) => `${tenantOfKey(caller)} ${name}`;
  return {
    send(caller, from, messages) {
      const { sends, asked } = of(caller);
      const name = nameOf(caller, from);
      const permit = sends.take(name, messages);
      const counted = asked.take(name, messages);
      return {
        refusal: permit.refusal,
        isBeyond: counted.refusal !== undefined,
        giveBack(isByGuard = false) {
          permit.giveBack();
          if (!isByGuard) counted.giveBack();
        },
      };
    },
    call: (caller, name) => of(caller).calls.spend(nameOf(caller, name)),
    attempt(caller, name) {
      const { attempts, sends } = of(caller);
      const refusal = attempts.spend(nameOf(caller, name));
      const waitMs = Math.max(refusal?.retryAfterMs ?? 0, sends.waitMs(nameOf(caller, name)));
      return refusal && { ...refusal, retryAfterMs: waitMs };
    },
    key: keys?.spend ?? noLimit,
  };
}

const noLimit: CallLimits["key"] = () => undefined;

function createAddressLimits(now: () => Instant, { sends, calls }: AddressLimits) {
  // An operator who widens the sends alone means them to be answered.
  const attempts: Limit = {
    burst: Math.max(sends.burst, calls.burst),
    intervalMs: Math.min(sends.intervalMs, calls.intervalMs),
  };
  return {
    sends: createCallLimit(sends, "IP_RATE_LIMITED", now),
    /** Sends, and what the guard refused of them. */
    asked: createCallLimit(sends, "IP_RATE_LIMITED", now),
    calls: createCallLimit(calls, "IP_RATE_LIMITED", now),
    attempts: createCallLimit(attempts, "IP_RATE_LIMITED", now),
  };
}
