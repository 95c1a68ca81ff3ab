/**
 * The acts of support: what became of the messages to one phone, how much it may still get, and a fresh start for it.
 */
import type { Noted } from "../../otp/operators/audit.ts";
import { defaultChannel, type Channel } from "../../otp/channel.ts";
import { referenceFor } from "../../otp/message/provider-text.ts";
import { refusalOf, type Destination } from "../../otp/verification/destination.ts";
import { phoneIndex, type PhoneNumber } from "../../otp/phone-number.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import type { Message } from "../../otp/message/message.ts";
import { wrongCodesOf, type Policy } from "../../otp/verification/policy.ts";
import type { Refusal } from "../../otp/reason.ts";
import { available, spend } from "../../otp/limits/rate-limit.ts";
import { isSpraying, nextDigits, noGuesses } from "../../otp/verification/spraying.ts";
import { stateAt, type Verification } from "../../otp/verification/verification.ts";
import type { State } from "../../otp/state.ts";
import type { PhoneRef, Store } from "../../store/store.ts";
import type { Instant } from "../../system.ts";

/** One request of a phone, with the messages that were sent for it. */
export interface PhoneRequest {
  readonly verification: Verification;
  readonly state: State;
  readonly messages: readonly Message[];
  /** What we call each of them with its provider. */
  readonly references: readonly string[];
}

/** What one of a phone's limits still allows. */
export interface Allowance {
  readonly knownUser: boolean;
  readonly burst: number;
  readonly intervalMs: number;
  /** Messages that it allows at once now. */
  readonly available: number;
  /** Until the next one, when none is available. */
  readonly retryAfterMs: number;
}

export interface PhoneReport {
  readonly isCountryAllowed: boolean;
  /** The entry of the lists that holds for it. */
  readonly entry: Destination | undefined;
  /** Why its sends are refused before any limit is asked; undefined when they are not. */
  readonly refusal: Refusal | undefined;
  /** Digits of a new code, or "refuse" under the strict policy. */
  readonly codeLength: number | "refuse";
  /** True while guesses all over the tenant make every new code of it longer. */
  readonly isTenantGuessedAt: boolean;
  /** Wrong codes of the last 90 days. */
  readonly wrongCodes: number;
  /** Attempts open on live requests. */
  readonly openAttempts: number;
  readonly allowances: readonly Allowance[];
  /** The latest first. */
  readonly requests: readonly PhoneRequest[];
}

export interface PhonesOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly policy: Policy;
}

const requestsMax = 20;

/** Reads all that is known of a phone, for messages by one of these channels. */
export async function showPhone(
  options: PhonesOptions,
  tenant: string,
  phone: PhoneNumber,
  channels: readonly Channel[] = [defaultChannel],
): Promise<PhoneReport> {
  const { store, keys, policy } = options;
  const now = store.now();
  const refs = refsOf(options, tenant, phone);
  const [stranger] = refs;
  const view = await store.readPhone(stranger);
  const guesses = (await store.readGuesses()).get(tenant) ?? noGuesses;
  const allowances = await Promise.all(refs.map((ref) => allowancesOf(options, ref, now)));
  const verifications = await store.listVerifications(stranger.indexes, requestsMax);
  const entry = await store.registry.findDestination(tenant, phone.e164);
  const refusals = channels.map((channel) => refusalOf(tenant, { phone, channel }, entry?.verdict, policy));
  return {
    entry,
    refusal: refusals.includes(undefined) ? undefined : refusals[0],
    isCountryAllowed: policy.allowedCountries?.has(phone.region) ?? true,
    codeLength: nextDigits(policy, view, guesses, now),
    isTenantGuessedAt: isSpraying(guesses),
    wrongCodes: wrongCodesOf(view.history, now),
    openAttempts: view.openAttempts,
    allowances: allowances.flat(),
    requests: await Promise.all(
      verifications.map(async (verification) => {
        const messages = await store.readMessages(verification.id);
        const references = messages.map(({ copy }) => referenceFor(keys, verification, copy));
        return { verification, state: stateAt(verification, now), messages, references };
      }),
    ),
  };
}

/** Gives a phone a fresh start: full buckets, no wrong codes. Its live requests stay as they are. */
export function resetPhone(options: PhonesOptions, tenant: string, phone: PhoneNumber, noted: Noted): Promise<void> {
  const [ref] = refsOf(options, tenant, phone);
  return options.store.resetPhone(ref, noted);
}

function refsOf({ keys, policy }: PhonesOptions, tenant: string, phone: PhoneNumber): [PhoneRef, PhoneRef] {
  const indexes = keys.all.map((key) => phoneIndex(key, tenant, phone.e164));
  const ref = { indexes, kid: keys.current.kid, knownUser: false, buckets: policy.phoneLimits.length };
  return [ref, { ...ref, knownUser: true }];
}

async function allowancesOf({ store, policy }: PhonesOptions, ref: PhoneRef, now: Instant): Promise<Allowance[]> {
  const { tats } = await store.readPhone(ref);
  return policy.phoneLimits.map((limit, place) => {
    const tatMs = tats[place] ?? 0;
    const next = spend(limit, tatMs, now);
    return {
      knownUser: ref.knownUser,
      burst: limit.burst,
      intervalMs: limit.intervalMs,
      available: available(limit, tatMs, now),
      retryAfterMs: next.allowed ? 0 : next.retryAfterMs,
    };
  });
}
