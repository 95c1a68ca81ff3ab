/**
 * Between a verification and its row, which has its log in a few bytes.
 */
import { channels, type Channel } from "../../otp/channel.ts";
import type { Fallback } from "../../otp/message/fallback.ts";
import type { SpentLimit } from "../../otp/limits/named-limit.ts";
import { type Tally } from "../../otp/limits/pumping-guard.ts";
import { type AndroidAppHash, type WebOrigin } from "../../otp/template/last-line.ts";
import {
  emptyLog,
  type Log,
  type LogEntry,
  type Outcomes,
  type Verification,
} from "../../otp/verification/verification.ts";
import type { State } from "../../otp/state.ts";
import { at, idBytesOf, idText, namesAndTypes, type Columns, type RowOf } from "./values.ts";
import { deliveries } from "./message.ts";
import { eventTypes } from "../../otp/event-type.ts";

/** Stored by position: append only. */
export const states: readonly State[] = ["PENDING", "VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"];

const tallies: readonly Tally[] = ["none", "block", "beyond"];

/** What stands for a state in rows, for statements over many of them. */
export const stateNumber = (state: State) => states.indexOf(state);

const columns = {
  id: "bytea",
  tenant: "text",
  key_id: "text",
  kid: "bigint",
  salt: "bytea or null",
  phone_index: "bytea",
  phone_box: "bytea",
  region: "text",
  locale: "text or null",
  purpose: "text or null",
  bind: "text or null",
  web_origin: "text or null",
  app_hash: "text or null",
  known_user: "bigint",
  tally: "bigint",
  state: "bigint",
  delivery: "bigint",
  digits: "bigint",
  attempts: "bigint",
  attempts_max: "bigint",
  resends: "bigint",
  next_resend_ms: "bigint",
  create_ms: "bigint",
  expire_ms: "bigint",
  end_ms: "bigint or null",
  channel: "bigint",
  log: "bytea or null",
  fallback: "text or null",
  fallback_ms: "bigint or null",
  spent_limits: "text or null",
} as const satisfies Columns;
export const { names: verificationColumns, types: verificationTypes } = namesAndTypes(columns);
export type VerificationRow = RowOf<typeof columns>;

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

/** What changes in a verification's life. */
export const changingColumns = [
  "salt",
  "state",
  "delivery",
  "attempts",
  "resends",
  "next_resend_ms",
  "end_ms",
  "log",
  "fallback",
  "fallback_ms",
  "spent_limits",
] as const satisfies (keyof typeof columns)[];
/** PostgreSQL's types of those and of the id. */
export const { types: changeTypes } = namesAndTypes(
  Object.fromEntries([...changingColumns, "id" as const].map((name) => [name, columns[name]])),
);

/** The values of `changingColumns` in their order, and the id. */
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

// ---- its log ---------------------------------------------------------------------------------------------------------

/**
 * Layout 1, numbers in one byte unless said otherwise:
 *
 *     1 | omitted | names | each name: bytes, UTF-8 | each entry: kind + 16 × copy | offset | outcome | name
 *
 * The offset is in milliseconds, 7 bits a byte, the lowest first, the eighth bit set in all but the last. Names are those
 * of providers; an entry has one only where its kind has a provider: its place in the list plus 1, or 0 for none. A row
 * without a log has NULL: one that an earlier version wrote.
 */
const layout = 1;
/** Stored by position: append only, 16 at most. */
const kinds = [
  "send",
  "resend",
  "call",
  "report",
  "guess",
  "end",
  "posted",
  "dropped",
  "fallback",
] as const satisfies (keyof Outcomes)[];

/** Stored by position: append only. */
const outcomes: { readonly [Kind in keyof Outcomes]: readonly Outcomes[Kind][] } = {
  send: channels,
  resend: channels,
  fallback: channels,
  call: [
    "accepted",
    "delivered",
    "undelivered",
    "recipient",
    "credentials",
    "balance",
    "content",
    "throttled",
    "unavailable",
    "ambiguous",
    "given-up",
  ],
  report: ["ACCEPTED", "DELIVERED", "UNDELIVERED"],
  guess: ["right", "wrong"],
  end: ["VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"],
  posted: eventTypes,
  dropped: eventTypes,
};

const withProvider: ReadonlySet<LogEntry["kind"]> = new Set(["call", "report"]);
const nameBytesMax = 255;

/** Where bytes are put together: a log with 32 names of 255 bytes fits. */
const scratch = Buffer.alloc(16_384);

export function logBytes({ entries, omitted }: Log): Buffer {
  const names: string[] = [];
  for (const { provider } of entries) if (provider !== null && !names.includes(provider)) names.push(provider);
  let end = 0;
  scratch[end++] = layout;
  scratch[end++] = omitted;
  scratch[end++] = names.length;
  for (const name of names) {
    const length = scratch.write(name, end + 1, nameBytesMax);
    scratch[end] = length;
    end += length + 1;
  }
  for (const { kind, copy, offsetMs, outcome, provider } of entries) {
    scratch[end++] = kinds.indexOf(kind) | (copy << 4);
    let rest = offsetMs;
    for (; rest > 127; rest = Math.floor(rest / 128)) scratch[end++] = (rest % 128) | 128;
    scratch[end++] = rest;
    scratch[end++] = (outcomes[kind] as readonly string[]).indexOf(outcome);
    if (withProvider.has(kind)) scratch[end++] = provider === null ? 0 : names.indexOf(provider) + 1;
  }
  return Buffer.from(scratch.subarray(0, end));
}

/** Throws where a newer version wrote it. */
export function toLog(bytes: Uint8Array | null): Log {
  if (bytes === null) return emptyLog;
  let place = 0;
  const next = () => at(bytes as unknown as readonly number[], place++);
  if (next() !== layout) throw new Error("the database holds a log from a newer version");
  const omitted = next();
  const names = Array.from({ length: next() }, () => {
    const length = next();
    place += length;
    return Buffer.from(bytes.subarray(place - length, place)).toString();
  });
  const entries: LogEntry[] = [];
  while (place < bytes.length) {
    const first = next();
    const kind = at(kinds, first & 15);
    let offsetMs = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = next();
      offsetMs += (byte & 127) * unit;
      if (byte < 128) break;
    }
    const outcome = at<string>(outcomes[kind], next());
    const provider = withProvider.has(kind) ? (names[next() - 1] ?? null) : null;
    entries.push({ kind, copy: first >> 4, offsetMs, outcome, provider } as LogEntry);
  }
  return { entries, omitted };
}
