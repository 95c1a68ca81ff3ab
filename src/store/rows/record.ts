/**
 * Between the rows of Idempotency-Keys and their records.
 */
import type { IdempotencyRecord, StoredAnswer } from "../../otp/verification/idempotency.ts";
import { at, idBytesOf, idText, namesAndTypes, type Columns, type RowOf } from "./values.ts";
import { deliveries } from "./message.ts";
import { states } from "./verification.ts";

const columns = {
  slot: "bytea",
  kid: "bigint",
  fingerprint: "bytea",
  verification_id: "bytea",
  answer: "text or null",
  busy_until_ms: "bigint",
  expire_ms: "bigint",
} as const satisfies Columns;
export const { names: recordColumns, types: recordTypes } = namesAndTypes(columns);
export type RecordRow = RowOf<typeof columns>;

export function toRecord(row: RecordRow): IdempotencyRecord {
  return {
    slot: row.slot,
    kid: row.kid,
    fingerprint: row.fingerprint,
    verificationId: idText(row.verification_id),
    answer: row.answer === null ? null : toAnswer(row.answer),
    busyUntilMs: row.busy_until_ms,
    expireMs: row.expire_ms,
  };
}

/** The values in the order of `recordColumns`. */
export function recordValues(r: IdempotencyRecord): (string | number | Uint8Array | null)[] {
  return [
    r.slot,
    r.kid,
    r.fingerprint,
    idBytesOf(r.verificationId),
    r.answer === null ? null : answerText(r.answer),
    r.busyUntilMs,
    r.expireMs,
  ];
}

/** A send's particulars, as they are stored: there are as many of these rows as sends, so their fields have no names. */
type SentText = readonly [at: number, state: number, delivery: number, nextResendMs: number | null, left: number];

export function answerText(answer: StoredAnswer): string {
  const { at: atMs, sent, refusal } = answer;
  if (sent === undefined || refusal !== undefined) return JSON.stringify(answer);
  const { state, delivery, nextResendMs, resendsRemaining } = sent;
  const text: SentText = [atMs, states.indexOf(state), deliveries.indexOf(delivery), nextResendMs, resendsRemaining];
  return JSON.stringify(text);
}

/** Reads also a send's answer from before it was stored without names. */
function toAnswer(text: string): StoredAnswer {
  const value = JSON.parse(text) as SentText | StoredAnswer;
  if (!isSent(value)) return value;
  const [atMs, state, delivery, nextResendMs, resendsRemaining] = value;
  return {
    at: atMs,
    sent: { state: at(states, state), delivery: at(deliveries, delivery), nextResendMs, resendsRemaining },
  };
}

function isSent(value: SentText | StoredAnswer): value is SentText {
  return Array.isArray(value);
}
