/**
 * Between a message and its row.
 */
import { channels } from "../../otp/channel.ts";
import { type Delivery, type Message } from "../../otp/message.ts";
import { type Instant } from "../../system.ts";
import { type Outbox } from "../store.ts";
import { at, idBytesOf, idText } from "./values.ts";

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

export interface MessageRow {
  verification_id: Uint8Array;
  copy: number;
  delivery: number;
  calls: number;
  failures: number;
  maybe_sent: number;
  recipient_refused: number;
  provider_index: number;
  due_ms: number | null;
  deadline_ms: number;
  place_day: number | null;
  provider: string | null;
  provider_message_id: string | null;
  detail: string | null;
  channel: number;
  country_day: number | null;
  reserved_day: number | null;
  reserved: number | null;
}

export const messageColumns = [
  "verification_id",
  "copy",
  "delivery",
  "calls",
  "failures",
  "maybe_sent",
  "recipient_refused",
  "provider_index",
  "due_ms",
  "deadline_ms",
  "place_day",
  "provider",
  "provider_message_id",
  "detail",
  "channel",
  "country_day",
  "reserved_day",
  "reserved",
] as const satisfies (keyof MessageRow)[];

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
