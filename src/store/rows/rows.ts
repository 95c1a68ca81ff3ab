/**
 * Between rows and the domain: the numbers that stand for states, and one function per table and direction. An id is 16
 * bytes in the database and 22 characters of base64url everywhere else.
 */
import { keyKinds, scopes, type ApiKey, type Scope } from "../../otp/api-key.ts";
import type { DailyCount } from "../../otp/daily-cap.ts";
import type { Destination, Verdict } from "../../otp/destination.ts";
import type { Delivery, Message } from "../../otp/message.ts";
import type { PhoneHistory } from "../../otp/policy.ts";
import type { AndroidAppHash, WebOrigin } from "../../otp/template/last-line.ts";
import type { TenantRecord } from "../../otp/tenant.ts";
import type { Tally } from "../../otp/pumping-guard.ts";
import type { State, Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import type { Outbox } from "../store.ts";

/** Stored by position: append only. */
export const states: readonly State[] = ["PENDING", "VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"];
export const deliveries: readonly Delivery[] = [
  "QUEUED",
  "SENDING",
  "ACCEPTED",
  "DELIVERED",
  "UNDELIVERED",
  "REJECTED",
  "EXPIRED",
];

const tallies: readonly Tally[] = ["none", "block", "beyond"];

/** What stands for these in rows, for statements over many of them. */
export const stateNumber = (state: State) => states.indexOf(state);
export const deliveryNumber = (delivery: Delivery) => deliveries.indexOf(delivery);

export function idBytes(id: string): Buffer | undefined {
  // 16 bytes are 22 characters, of which the last carries 4 unused bits: only the one canonical spelling is an id.
  if (id.length !== 22) return undefined;
  const bytes = Buffer.from(id, "base64url");
  return bytes.length === 16 && bytes.toString("base64url") === id ? bytes : undefined;
}

export function idText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64url");
}

export function idBytesOf(id: string): Buffer {
  const bytes = idBytes(id);
  if (bytes === undefined) throw new Error("not an id");
  return bytes;
}

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
  ];
}

/** What changes in a verification's life, and its id last: the values of the one UPDATE. */
export function verificationChanges(v: Verification): (string | number | Uint8Array | null)[] {
  const [state, delivery] = [states.indexOf(v.state), deliveries.indexOf(v.delivery)];
  return [v.salt, state, delivery, v.attempts, v.resends, v.nextResendMs, v.endMs, idBytesOf(v.id)];
}

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
    delivery: at(deliveries, row.delivery),
    calls: row.calls,
    failures: row.failures,
    maybeSent: row.maybe_sent === 1,
    recipientRefused: row.recipient_refused === 1,
    providerIndex: row.provider_index,
    dueMs: row.due_ms,
    deadlineMs: row.deadline_ms,
    placeDay: row.place_day,
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
    m.placeDay,
    m.provider,
    m.providerMessageId,
    m.detail,
  ];
}

export interface PhoneRow {
  phone_index: Uint8Array;
  wrong_codes: string;
  refunds: string;
}

export function toHistory(row: PhoneRow): PhoneHistory {
  return {
    wrongCodes: JSON.parse(row.wrong_codes) as PhoneHistory["wrongCodes"],
    refunds: JSON.parse(row.refunds) as PhoneHistory["refunds"],
  };
}

/** Joins what two master keys know of one phone. */
export function mergeHistories(a: PhoneHistory, b: PhoneHistory): PhoneHistory {
  const byDay = new Map<number, number>();
  for (const [day, count] of [...a.wrongCodes, ...b.wrongCodes]) byDay.set(day, (byDay.get(day) ?? 0) + count);
  return {
    wrongCodes: [...byDay].toSorted(([x], [y]) => x - y),
    refunds: [...a.refunds, ...b.refunds].toSorted((x, y) => x - y),
  };
}

export interface ApiKeyRow {
  id: string;
  kind: string;
  tenant: string;
  name: string;
  scopes: string;
  origins: string;
  is_app: number;
  digest: Uint8Array;
  create_ms: number;
  expire_ms: number | null;
  revoke_ms: number | null;
  last_use_ms: number | null;
}

export function toApiKey(row: ApiKeyRow): ApiKey {
  const named = new Set(row.scopes.split(" "));
  return {
    id: row.id,
    // Not taken for some other kind: every kind may do what another may not.
    kind: at(keyKinds, keyKinds.indexOf(row.kind as ApiKey["kind"])),
    tenant: row.tenant,
    name: row.name,
    scopes: scopes.filter((scope: Scope) => named.has(scope)),
    origins: row.origins === "" ? [] : row.origins.split(" "),
    isApp: row.is_app === 1,
    digest: row.digest,
    createMs: row.create_ms,
    expireMs: row.expire_ms,
    revokeMs: row.revoke_ms,
    lastUseMs: row.last_use_ms,
  };
}

export interface TenantRow {
  id: string;
  settings: string;
  create_ms: number;
  disable_ms: number | null;
  revision: number;
  /** 1 if any of its endpoints is not disabled. */
  has_webhooks: number;
}

export const tenantColumns = [
  "id",
  "settings",
  "create_ms",
  "disable_ms",
  "revision",
  "(SELECT count(*) FROM (SELECT 1 FROM webhook_endpoints AS e WHERE e.tenant = tenants.id AND e.disable_ms IS NULL LIMIT 1) AS any_endpoint) AS has_webhooks",
] as const;

export function toTenant(row: TenantRow): TenantRecord {
  const { id, settings, create_ms: createMs, disable_ms: disableMs, revision } = row;
  return { id, settings, createMs, disableMs, revision, ...(row.has_webhooks > 0 ? { hasWebhooks: true } : {}) };
}

export interface DestinationRow {
  tenant: string;
  prefix: string;
  verdict: Verdict;
  note: string;
  create_ms: number;
}

export function toDestination({ create_ms: createMs, ...rest }: DestinationRow): Destination {
  return { ...rest, createMs };
}

export interface DailyRow {
  day: number;
  count: number;
  warned: DailyCount["warned"];
  warned_cap: number;
}

export function toDaily({ day, count, warned, warned_cap: warnedCap }: DailyRow): DailyCount {
  return { day, count, warned, warnedCap };
}

/** A bucket's key: the phone's index and one byte for the lane and the limit's place. */
export function bucketKey(index: Uint8Array, knownUser: boolean, place: number): Buffer {
  return Buffer.concat([index, Uint8Array.of((knownUser ? 0x20 : 0x10) | place)]);
}

export function at<T>(list: readonly T[], position: number): T {
  const value = list[position];
  if (value === undefined) throw new Error(`the database holds a value from a newer version: ${position}`);
  return value;
}
