/**
 * Tries of a provider: an operator has one fixed text sent, to see what a gateway makes of it. Each costs what a
 * message does, so it counts under the caps of the tenant `default`, and there are few of them. A try is counted and
 * entered in the audit in one transaction, before anything is sent.
 */
import { auditEntry, type Author } from "../../otp/operators/audit.ts";
import type { Channel } from "../../otp/channel.ts";
import { refusalOf } from "../../otp/verification/destination.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import type { SendOutcome } from "../../otp/message/message.ts";
import { phoneIndex, type E164, type PhoneNumber } from "../../otp/phone-number.ts";
import { type Policy } from "../../otp/verification/policy.ts";
import { referenceOf } from "../../otp/message/provider-text.ts";
import { available, spendAll, type Limit } from "../../otp/limits/rate-limit.ts";
import { refuse, type Refusal } from "../../otp/reason.ts";
import { capsOf, countAll, type Bill } from "../../otp/decisions/spending.ts";
import type { SendView } from "../../otp/decisions/standing.ts";
import { defaultTenant } from "../../otp/operators/tenant.ts";
import { nothing, type Decided } from "../../otp/decisions/writes.ts";
import type { Store } from "../../store/store.ts";
import { dayMs, randomText, type System } from "../../system.ts";

/** Tries of all: ten at once, and ten a day. */
export const tryLimit: Limit = { burst: 10, intervalMs: dayMs / 10 };
/** Tries of one key or one user: half of that. */
export const actorTryLimit: Limit = { burst: 5, intervalMs: dayMs / 5 };

/** Where the tries are counted: no number is spelt so. */
const triesOf = "providers try";

/** What is sent. */
export const tryText = "This is a test of otpd. You need not do anything.";
/** As long as a message waits for its provider. */
const callTimeoutMs = 5_000;

/** Who has what tried. */
export interface TryEntry {
  readonly by: Author;
  readonly provider: string;
  readonly e164: E164;
}

/** May it be made? If not, what stands in the way, and for how long. */
export type TryVerdict =
  | { readonly allowed: true; readonly remaining: number }
  | { readonly allowed: false; readonly by: "tries" | "daily-cap"; readonly retryAfterMs: number };

export interface SpendTryOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly policy: Policy;
  /** The country that it goes to. */
  readonly region: string;
  readonly channel: Channel;
  /** What it may cost, in millionths. */
  readonly price: Bill["price"];
  readonly entry: TryEntry;
}

/** Counts a try, if there is room for one, and writes its entry of the audit. What came of it gives none back. */
export function spendTry({ store, keys, policy, region, channel, price, entry }: SpendTryOptions): Promise<TryVerdict> {
  const { by, provider, e164 } = entry;
  const indexesOf = (of: string) => keys.all.map((key) => phoneIndex(key, defaultTenant, of));
  // Whoever has the command line has the machine.
  const actor = by.actor === "cli" ? undefined : by.actor;
  const limits = actor === undefined ? [] : [{ indexes: indexesOf(`${triesOf} ${actor}`), limits: [actorTryLimit] }];
  const phone = { indexes: indexesOf(triesOf), kid: keys.current.kid, knownUser: false, buckets: 1, limits };
  const bill = { caps: capsOf(defaultTenant, { region, channel }, policy), price };
  const scope = { tenant: defaultTenant, slot: undefined, phone, caps: bill.caps };
  const index = Buffer.from(phoneIndex(keys.current, defaultTenant, e164)).toString("base64url");
  const audited = { tenant: defaultTenant, subject: provider, after: { channel, country: region, phone: index } };
  return store.openVerification(scope, (view): Decided<TryVerdict> => {
    const decided = decideTry(view, bill);
    if (!decided.result.allowed) return decided;
    const audit = auditEntry({ by, action: "provider.try" }, audited, view.now);
    return { ...decided, writes: { ...decided.writes, audit } };
  });
}

function decideTry({ now, phone, days }: SendView, bill: Bill): Decided<TryVerdict> {
  const [own] = phone?.limitTats ?? [];
  const all = spendAll([tryLimit], phone?.tats ?? [], now);
  const ofActor = own === undefined ? undefined : spendAll([actorTryLimit], own, now);
  const waits = [all, ofActor].map((spending) => (spending?.allowed === false ? spending.retryAfterMs : 0));
  if (!all.allowed || ofActor?.allowed === false) {
    return nothing({ allowed: false, by: "tries", retryAfterMs: Math.max(...waits) });
  }
  const counted = countAll(days, bill, now);
  if (!counted.counted) {
    return nothing({ allowed: false, by: "daily-cap", retryAfterMs: counted.refusal.retryAfterMs ?? 0 });
  }
  const left = [available(tryLimit, all.tatsMs[0] ?? 0, now)];
  if (ofActor !== undefined) left.push(available(actorTryLimit, ofActor.tatsMs[0] ?? 0, now));
  const spent = { tats: all.tatsMs, ...(ofActor === undefined ? {} : { limitTats: [ofActor.tatsMs] }) };
  return { writes: { ...spent, ...counted.writes }, result: { allowed: true, remaining: Math.min(...left) } };
}

/** The message of a try, as a provider is given it. */
export interface TryMessage {
  readonly channel: Channel;
  readonly to: E164;
  readonly region: string;
  readonly text: string;
  readonly prompt: string;
  readonly code: string;
  readonly locale: string;
  readonly validitySeconds: number;
  readonly reference: string;
}

export interface TryOptions extends Pick<SpendTryOptions, "store" | "keys" | "policy" | "channel" | "price"> {
  readonly system: Pick<System, "randomBytes">;
  readonly by: Author;
  readonly provider: string;
  readonly phone: PhoneNumber;
  readonly send: (message: TryMessage, signal: AbortSignal) => Promise<SendOutcome>;
}

export type Tried =
  /** Nothing may be sent to this number. */
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | ({ readonly kind: "no room" } & Exclude<TryVerdict, { allowed: true }>)
  | {
      readonly kind: "tried";
      readonly outcome: SendOutcome;
      readonly durationMs: number;
      /** Tries that may be made at once now. */
      readonly remaining: number;
    };

/** Has a provider send the fixed text, if the tenant `default` may send to the number and there is room for a try. */
export async function tryProvider(options: TryOptions): Promise<Tried> {
  const { store, keys, policy, system, by, provider, phone, channel, price, send } = options;
  const { e164, region } = phone;
  const listed = await store.registry.findDestination(defaultTenant, e164);
  const refusal = refusalOf(defaultTenant, { phone, channel }, listed?.verdict, policy);
  if (refusal !== undefined) return { kind: "refused", refusal };
  // What the console prints is no call.
  if (channel === "voice" && policy.dailyVoiceMax === undefined && provider !== "console") {
    const message = "Nobody is called until OTP_VOICE_DAILY_CAP says how many calls a day may be made.";
    return { kind: "refused", refusal: refuse("CHANNEL_UNSUPPORTED", { field: "channel", message }).refusal };
  }
  const entry = { by, provider, e164 };
  const verdict = await spendTry({ store, keys, policy, region, channel, price, entry });
  if (!verdict.allowed) return { kind: "no room", ...verdict };
  const reference = referenceOf(keys.current, randomText(system, 16), 0);
  const fixed = { text: tryText, prompt: tryText, code: "000000", locale: "en", validitySeconds: 600 };
  const startMs = store.now();
  const outcome = await called(send, { ...fixed, channel, to: e164, region, reference });
  return { kind: "tried", outcome, durationMs: store.now() - startMs, remaining: verdict.remaining };
}

async function called(send: TryOptions["send"], message: TryMessage): Promise<SendOutcome> {
  const timeout = AbortSignal.timeout(callTimeoutMs);
  const late = Promise.withResolvers<SendOutcome>();
  timeout.addEventListener("abort", () => late.resolve({ kind: "ambiguous", detail: "no answer in time" }));
  try {
    return await Promise.race([send(message, timeout), late.promise]);
  } catch {
    // A provider's error may quote the request, so its text goes nowhere.
    return { kind: "ambiguous", detail: "the provider's adapter failed" };
  }
}
