/**
 * Between a verification and its row.
 */
import { channels, type Channel } from "../../otp/channel.ts";
import type { Fallback } from "../../otp/fallback.ts";
import type { SpentLimit } from "../../otp/named-limit.ts";
import { type Tally } from "../../otp/pumping-guard.ts";
import { type AndroidAppHash, type WebOrigin } from "../../otp/template/last-line.ts";
import type { Verification } from "../../otp/verification.ts";
import type { State } from "../../otp/state.ts";
import { at, idBytesOf, idText } from "./values.ts";
import { logBytes, toLog } from "./log.ts";
import { deliveries } from "./message.ts";

/** Stored by position: append only. */
export const states: readonly State[] = ["PENDING", "VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"];

const tallies: readonly Tally[] = ["none", "block", "beyond"];

/** What stands for a state in rows, for statements over many of them. */
export const stateNumber = (state: State) => states.indexOf(state);

export interface VerificationRow {
  id: Uint8Array;
  tenant: string;
  key_id: string;
  kid: number;
  salt: Uint8Array | null;
  phone_index: Uint8Array;
  phone_box: Uint8Array;
  region: string;
  locale: string | null;
  purpose: string | null;
  bind: string | null;
  web_origin: string | null;
  app_hash: string | null;
  known_user: number;
  tally: number;
  state: number;
  delivery: number;
  digits: number;
  attempts: number;
  attempts_max: number;
  resends: number;
  next_resend_ms: number;
  create_ms: number;
  expire_ms: number;
  end_ms: number | null;
  channel: number;
  log: Uint8Array | null;
  fallback: string | null;
  fallback_ms: number | null;
  spent_limits: string | null;
}

export const verificationColumns = [
  "id",
  "tenant",
  "key_id",
  "kid",
  "salt",
  "phone_index",
  "phone_box",
  "region",
  "locale",
  "purpose",
  "bind",
  "web_origin",
  "app_hash",
  "known_user",
  "tally",
  "state",
  "delivery",
  "digits",
  "attempts",
  "attempts_max",
  "resends",
  "next_resend_ms",
  "create_ms",
  "expire_ms",
  "end_ms",
  "channel",
  "log",
  "fallback",
  "fallback_ms",
  "spent_limits",
] as const satisfies (keyof VerificationRow)[];

export function toVerification(row: VerificationRow): Verification {
  return {
    id: idText(row.id),
    tenant: row.tenant,
    keyId: row.key_id,
    kid: row.kid,
    salt: row.salt,
    phoneIndex: row.phone_index,
    phoneBox: row.phone_box,
    region: row.region,
    locale: row.locale ?? "",
    channel: at(channels, row.channel),
    purpose: row.purpose ?? "",
    bind: row.bind ?? "",
    webOrigin: (row.web_origin ?? undefined) as WebOrigin | undefined,
    appHash: (row.app_hash ?? undefined) as AndroidAppHash | undefined,
    knownUser: row.known_user === 1,
    tally: at(tallies, row.tally),
    state: at(states, row.state),
    delivery: at(deliveries, row.delivery),
    digits: row.digits,
    attempts: row.attempts,
    attemptsMax: row.attempts_max,
    resends: row.resends,
    nextResendMs: row.next_resend_ms,
    createMs: row.create_ms,
    expireMs: row.expire_ms,
    endMs: row.end_ms,
    log: toLog(row.log),
    fallback: toFallback(row.fallback, row.fallback_ms),
    spentLimits: toSpentLimits(row.spent_limits),
  };
}

/** The values in the order of `verificationColumns`. */
export function verificationValues(v: Verification): (string | number | Uint8Array | null)[] {
  return [
    idBytesOf(v.id),
    v.tenant,
    v.keyId,
    v.kid,
    v.salt,
    v.phoneIndex,
    v.phoneBox,
    v.region,
    v.locale || null,
    v.purpose || null,
    v.bind || null,
    v.webOrigin ?? null,
    v.appHash ?? null,
    v.knownUser ? 1 : 0,
    tallies.indexOf(v.tally),
    states.indexOf(v.state),
    deliveries.indexOf(v.delivery),
    v.digits,
    v.attempts,
    v.attemptsMax,
    v.resends,
    v.nextResendMs,
    v.createMs,
    v.expireMs,
    v.endMs,
    channels.indexOf(v.channel),
    logBytes(v.log),
    v.fallback && fallbackText(v.fallback),
    v.fallback?.dueMs ?? null,
    v.spentLimits.length === 0 ? null : spentLimitsText(v.spentLimits),
  ];
}

/** What changes in a verification's life, and its id last: the values of the one UPDATE. */
export function verificationChanges(v: Verification): (string | number | Uint8Array | null)[] {
  return [
    v.salt,
    states.indexOf(v.state),
    deliveries.indexOf(v.delivery),
    v.attempts,
    v.resends,
    v.nextResendMs,
    v.endMs,
    logBytes(v.log),
    v.fallback && fallbackText(v.fallback),
    v.fallback?.dueMs ?? null,
    v.spentLimits.length === 0 ? null : spentLimitsText(v.spentLimits),
    idBytesOf(v.id),
  ];
}

/** What is kept of a plan beside its time: `[afterMs, owed, unsent, channels]`. */
type StoredFallback = [afterMs: number, owed: number, unsent: readonly number[], channels: readonly Channel[]];

function fallbackText(fallback: Fallback): string {
  const { afterMs, owed, unsent, channels: left } = fallback;
  return JSON.stringify([afterMs, owed, unsent, left] satisfies StoredFallback);
}

function toFallback(text: string | null, dueMs: number | null): Fallback | null {
  if (text === null) return null;
  const [afterMs, owed, unsent, left] = JSON.parse(text) as StoredFallback;
  return { channels: left, afterMs, dueMs, owed, unsent };
}

/** What is kept of a limit: `[name, index in base64url]`. */
type StoredLimit = [name: string, index: string];

function spentLimitsText(spent: readonly SpentLimit[]): string {
  const stored = spent.map(({ name, index }): StoredLimit => [name, Buffer.from(index).toString("base64url")]);
  return JSON.stringify(stored);
}

function toSpentLimits(text: string | null): readonly SpentLimit[] {
  const stored = text === null ? [] : (JSON.parse(text) as StoredLimit[]);
  return stored.map(([name, index]) => ({ name, index: Buffer.from(index, "base64url") }));
}

/** No verification lives longer than this, so an older one of a phone cannot be open. */
export const lifeMaxMs = 600_000;
