/**
 * One of everything that the rules decide about, each with the parts that a test cares about changed: keys, a policy, a
 * verification, a message. All of it is fixed, so that a failure reads the same twice.
 */
import { channels } from "../../../src/otp/channel.ts";
import { emptyLog, type Log, type LogEntry, type Verification } from "../../../src/otp/verification/verification.ts";
import { deriveCode } from "../../../src/otp/message/code.ts";
import type { FallbackPlan } from "../../../src/otp/message/fallback.ts";
import type { SendFacts } from "../../../src/otp/decisions/sending.ts";
import { idempotencyClaim, newRecord, type IdempotencyClaim } from "../../../src/otp/verification/idempotency.ts";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import { newMessage, type Message } from "../../../src/otp/message/message.ts";
import { phoneIndex, sealPhone, type E164, type PhoneNumber } from "../../../src/otp/phone-number.ts";
import { emptyHistory, type Policy } from "../../../src/otp/verification/policy.ts";
import type { ResendFacts } from "../../../src/otp/decisions/resending.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import type { PhoneView } from "../../../src/otp/decisions/writes.ts";
import type { State } from "../../../src/otp/state.ts";
import { testEpochMs } from "../service/system.ts";

export const secondMs = 1_000;
export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

/** The bytes 0 to 31, and the bytes 255 down to 224. */
export const masterKeyA = Uint8Array.from({ length: 32 }, (_, i) => i);
export const masterKeyB = Uint8Array.from({ length: 32 }, (_, i) => 255 - i);

export const keys = createKeyRing([masterKeyA]);

/** The policy of a configuration without any variable. */
export const policy: Policy = {
  codeLength: 6,
  codeLengthMax: 8,
  guessPolicy: "lengthen",
  ttlMs: 600 * secondMs,
  attemptsMax: 5,
  resendGapsMs: [30 * secondMs, 60 * secondMs],
  fraudGuard: "observe",
  phoneLimits: [
    { burst: 5, intervalMs: 10 * minuteMs },
    { burst: 6, intervalMs: 4 * hourMs },
  ],
  allowedCountries: undefined,
  dailyMessagesMax: undefined,
  retentionMs: 72 * hourMs,
};

export const phone: PhoneNumber = { e164: "+31612345678" as E164, region: "NL", kind: "mobile" };

/** A phone that nothing is known of. */
export const freshPhone: PhoneView = { tats: [0, 0], history: emptyHistory, openAttempts: 0 };

/** A phone that may get no message at `now`, and how long it has to wait. */
export function exhaustedPhone(now: number): { view: PhoneView; retryAfterMs: number } {
  const tats = policy.phoneLimits.map((limit) => now + limit.burst * limit.intervalMs);
  return { view: { ...freshPhone, tats }, retryAfterMs: 4 * hourMs };
}

/** A resend that names no channel, where all are on. */
export const sameChannel: ResendFacts = { channel: undefined, offered: channels, numberOf: () => phone };

const id = "q83vEjRWeJCrze8SNFZ4kA";
const salt = Uint8Array.from({ length: 16 }, (_, i) => i * 17);

/** A send that stays with its channel. */
export const noFallback: FallbackPlan = { channels: [], afterMs: 30_000 };

/** A send that passed the door. */
export const sendFacts: SendFacts = {
  id,
  tenant: "default",
  keyId: "key",
  kid: keys.current.kid,
  salt,
  phone,
  phoneIndex: phoneIndex(keys.current, "default", phone.e164),
  phoneBox: sealPhone(keys.current, id, phone.e164),
  channel: "sms",
  locale: "nl",
  purpose: "login",
  bind: "",
  webOrigin: undefined,
  appHash: undefined,
  knownUser: false,
  fallback: noFallback,
};

/** A pending verification, opened at the test epoch. */
export function verificationOf(changes: Partial<Verification> = {}): Verification {
  const { phone: _, ...facts } = sendFacts;
  return {
    ...facts,
    region: phone.region,
    tally: "none",
    state: "PENDING",
    delivery: "ACCEPTED",
    digits: 6,
    attempts: 0,
    attemptsMax: policy.attemptsMax,
    resends: 0,
    nextResendMs: testEpochMs + 30 * secondMs,
    createMs: testEpochMs,
    expireMs: testEpochMs + policy.ttlMs,
    endMs: null,
    log: emptyLog,
    fallback: null,
    spentLimits: [],
    ...changes,
  };
}

export type LogText = [offsetMs: number, kind: string, outcome: string, provider?: string | null, copy?: number];

/** A log with these entries; where nothing is said of them, of no provider and about the first message. */
export function logOf(...entries: LogText[]): Log {
  return {
    entries: entries.map(
      ([offsetMs, kind, outcome, provider = null, copy = 0]) =>
        ({ kind, outcome, copy, provider, offsetMs }) as LogEntry,
    ),
    omitted: 0,
  };
}

/** A verification that ended in `state`, a second after it was opened. */
export function endedAs(state: Exclude<State, "PENDING">, changes: Partial<Verification> = {}): Verification {
  return verificationOf({ state, salt: null, endMs: testEpochMs + secondMs, ...changes });
}

/** The right code of a verification that still has its salt. */
export function rightCode(verification: Verification): Secret {
  const code = deriveCode(keys, verification);
  if (code === undefined) throw new Error("this verification has no code");
  return code;
}

/** A code of as many digits that is not the right one. */
export function wrongCode(verification: Verification): Secret {
  const right = Number(rightCode(verification).reveal());
  return new Secret(String((right + 1) % 10 ** verification.digits).padStart(verification.digits, "0"));
}

/** The first message of a verification, in its worker's hand. */
export function messageOf(changes: Partial<Message> = {}): Message {
  const made = { verificationId: id, copy: 0, channel: "sms", now: testEpochMs, countedDay: null } as const;
  return { ...newMessage({ ...made, deadlineMs: testEpochMs + 9 * minuteMs }), ...changes };
}

/** A call with an Idempotency-Key. */
export const claim: IdempotencyClaim = idempotencyClaim(
  keys,
  { tenant: "default", keyId: "key", rpc: "SendOtp", key: "the caller's" },
  ["a", "b"],
);

/** The same Idempotency-Key with another request. */
export const otherClaim: IdempotencyClaim = idempotencyClaim(
  keys,
  { tenant: "default", keyId: "key", rpc: "SendOtp", key: "the caller's" },
  ["a", "c"],
);

/** What a first call with `claim` left behind at the test epoch, and noted its answer. */
export const record = newRecord(claim, id, { at: testEpochMs }, testEpochMs);

/** The same, while the first call is still running. */
export const busyRecord = newRecord(claim, id, null, testEpochMs);
