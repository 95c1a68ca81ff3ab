/**
 * Between a message and its row.
 */
import { channels } from "../../otp/channel.ts";
import { type Delivery, type Message } from "../../otp/message/message.ts";
import { type Instant } from "../../system.ts";
import { type Outbox } from "../store.ts";
import { at, idBytesOf, idText, namesAndTypes, type Columns, type RowOf } from "./values.ts";

/** Stored by position: append only. */
export const deliveries: readonly Delivery[] = [
  "QUEUED",
  "SENDING",
  "ACCEPTED",
  "DELIVERED",
  "UNDELIVERED",
  "REJECTED",
  "EXPIRED",
];

/** What stands for a delivery in rows, for statements over many of them. */
export const deliveryNumber = (delivery: Delivery) => deliveries.indexOf(delivery);

const columns = {
  verification_id: "bytea",
  copy: "bigint",
  delivery: "bigint",
  calls: "bigint",
  failures: "bigint",
  maybe_sent: "bigint",
  recipient_refused: "bigint",
  provider_index: "bigint",
  due_ms: "bigint or null",
  deadline_ms: "bigint",
  place_day: "bigint or null",
  provider: "text or null",
  provider_message_id: "text or null",
  detail: "text or null",
  channel: "bigint",
  country_day: "bigint or null",
  reserved_day: "bigint or null",
  reserved: "bigint or null",
} as const satisfies Columns;
export const { names: messageColumns, types: messageTypes } = namesAndTypes(columns);
export type MessageRow = RowOf<typeof columns>;

export interface OutboxRow {
  due: number | null;
  depth: number;
}

export function toOutbox(row: OutboxRow | undefined, now: Instant): Outbox {
  return { depth: row?.depth ?? 0, lagMs: Math.max(0, now - (row?.due ?? now)) };
}

export function toMessage(row: MessageRow): Message {
  return {
    verificationId: idText(row.verification_id),
    copy: row.copy,
    channel: at(channels, row.channel),
    delivery: at(deliveries, row.delivery),
    calls: row.calls,
    failures: row.failures,
    maybeSent: row.maybe_sent === 1,
    recipientRefused: row.recipient_refused === 1,
    providerIndex: row.provider_index,
    dueMs: row.due_ms,
    deadlineMs: row.deadline_ms,
    countedDay: row.place_day,
    countryDay: row.country_day,
    reserved: row.reserved_day === null ? null : { day: row.reserved_day, amount: row.reserved ?? 0 },
    provider: row.provider,
    providerMessageId: row.provider_message_id,
    detail: row.detail,
  };
}

/** The values in the order of `messageColumns`. */
export function messageValues(m: Message): (string | number | Uint8Array | null)[] {
  return [
    idBytesOf(m.verificationId),
    m.copy,
    deliveries.indexOf(m.delivery),
    m.calls,
    m.failures,
    m.maybeSent ? 1 : 0,
    m.recipientRefused ? 1 : 0,
    m.providerIndex,
    m.dueMs,
    m.deadlineMs,
    m.countedDay,
    m.provider,
    m.providerMessageId,
    m.detail,
    channels.indexOf(m.channel),
    m.countryDay,
    m.reserved?.day ?? null,
    m.reserved?.amount ?? null,
  ];
}
