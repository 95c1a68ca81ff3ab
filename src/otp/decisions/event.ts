/**
 * Events: what a tenant's own systems are told of. An event is derived here from what a decision has changed (before →
 * after) and written with that change, whoever made it: a call, a worker, a late report or the sweep. An event holds no
 * code, and a phone only in its box. Its body is made for each try (`bodyOf`), with the phone as the endpoint asked for it.
 */
import type { SpendWarning } from "../verification/daily-cap.ts";
import type { EventType } from "../event-type.ts";
import { digest, type KeyRing } from "../keys/key-ring.ts";
import type { Message } from "../message/message.ts";
import { referenceFor } from "../message/provider-text.ts";
import { maskPhone, type E164 } from "../phone-number.ts";

import { moneyText } from "../message/prices.ts";
import { isTrip, type PrefixDecision } from "../limits/pumping-guard.ts";
import { isSandbox, realTenantOf } from "../message/sandbox.ts";
import { terminalReason } from "../state.ts";
import { channelsUsed, type Verification } from "../verification/verification.ts";
import type { Writes } from "./writes.ts";
import { dayMs, type Instant, timeOf } from "../../system.ts";

/** What `otpd webhooks test` sends. No endpoint asks for it, and each gets it. */
const testType = "webhook.test";

export interface OwedEvent {
  /**
   * `evt_` and 22 characters of base64url, made of what happened; where a message ended, of when, too.
   */
  readonly id: string;
  /** Whom it is for. A sandbox's are for the tenant that it stands beside. */
  readonly tenant: string;
  readonly type: EventType | typeof testType;
  readonly createMs: Instant;
  /** `data` as it is posted, but for the phone. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The box of the phone it is about, and the row that the box was made for. */
  readonly phone: { readonly requestId: string; readonly kid: number; readonly box: Uint8Array } | null;
}

/** A message before and after a decision; without a before it is new. */
export interface MessageChange {
  readonly before: Message | undefined;
  readonly after: Message;
}

/**
 * The events of a change to a verification. `before` is undefined for a new one; `messages` are those that changed with
 * it, if any. Pure.
 */
export function verificationEvents(
  before: Verification | undefined,
  after: Verification,
  messages: readonly MessageChange[],
  now: Instant,
): OwedEvent[] {
  const owed: OwedEvent[] = [];
  const tell = (type: EventType, parts: readonly string[], more: Readonly<Record<string, unknown>> = {}) => {
    const createMs = type === "verification.expired" ? (after.endMs ?? now) : now;
    owed.push({
      id: eventId(type, after.id, ...parts),
      tenant: realTenantOf(after.tenant),
      type,
      createMs,
      facts: { ...factsOf(after), ...more },
      phone: { requestId: after.id, kid: after.kid, box: after.phoneBox },
    });
  };
  if (before === undefined) tell("verification.created", []);
  for (const message of messages) {
    const { copy, calls, channel, delivery, provider, providerMessageId } = message.after;
    const became = deliveryToTell(message.after);
    const isNew = became !== undefined && (message.before === undefined || deliveryToTell(message.before) !== became);
    // A message that a second provider takes is accepted twice, with a call between. What follows a resend that never left has its
    // copy; no provider had taken that.
    const when = became === "accepted" ? [] : [`${now}`];
    if (isNew) {
      tell(`verification.${became}`, [`${copy}`, `${calls}`, ...when], {
        channel,
        delivery: `DELIVERY_${delivery}`,
        copy,
        provider,
        provider_message_id: providerMessageId,
      });
    }
  }
  if (after.state !== "PENDING" && before?.state === "PENDING") {
    const ends = {
      VERIFIED: "verification.verified",
      EXPIRED: "verification.expired",
      LOCKED: "verification.locked",
      CANCELED: "verification.canceled",
      FAILED: "verification.failed",
    } as const;
    tell(ends[after.state], []);
  }
  return owed;
}

/** What a decision was made about. */
export interface Loaded {
  readonly verification?: Verification | undefined;
  readonly message?: Message | undefined;
  /** The message before a new one. */
  readonly earlier?: Message | undefined;
  readonly now: Instant;
}

/** The events of a decision about a verification: what it writes, beside what was loaded. Pure. */
export function eventsOf(writes: Writes, loaded: Loaded): OwedEvent[] {
  const after = writes.verification ?? loaded.verification;
  if (after === undefined) return [];
  const changed = (["earlier", "message"] as const).flatMap((which) => {
    const written = writes[which];
    return written === undefined ? [] : { before: loaded[which], after: written };
  });
  return verificationEvents(loaded.verification, after, changed, loaded.now);
}

/** The event of a decision about a prefix that it is refused, or would be; undefined for any other. Pure. */
export function fraudEvent(tenant: string, prefix: string, decision: PrefixDecision): OwedEvent | undefined {
  const { kind, atMs, ended, verified, untilMs, enforced } = decision;
  if (kind !== "limited" && !isTrip(decision)) return undefined;
  const type = kind === "limited" ? "fraud.limited" : "fraud.tripped";
  return {
    id: eventId(type, tenant, prefix, `${atMs}`),
    tenant,
    type,
    createMs: atMs,
    facts: { tenant, prefix, sends: ended, verified, enforced, until_time: timeOf(untilMs) },
    phone: null,
  };
}

/** The event of a share of a cap that was reached. `day` is the UTC day's number since the epoch. Pure. */
export function spendEvent(tenant: string, day: number, warning: SpendWarning, now: Instant): OwedEvent {
  const { share, cap, currency, country, channel } = warning;
  // Ids of warnings of a tenant's whole day are what they were before there were others.
  const of = [currency, country, channel].filter((each) => each !== undefined);
  const what = currency === undefined ? { cap } : { cap_amount: moneyText(cap), currency };
  return {
    id: eventId("spend.warning", tenant, `${day}`, `${share}`, `${cap}`, ...of),
    tenant,
    type: "spend.warning",
    createMs: now,
    facts: {
      tenant,
      share_percent: share,
      ...what,
      country,
      channel,
      day: new Date(day * dayMs).toISOString().slice(0, 10),
    },
    phone: null,
  };
}

/** The event that tries an endpoint. `id` is fresh. Pure. */
export function testEvent(id: string, tenant: string, now: Instant): OwedEvent {
  return { id: `evt_${id}`, tenant, type: testType, createMs: now, facts: { tenant }, phone: null };
}

/** The body that is posted. `phone` is that of the event, where it has one and it can be read. Pure. */
export function bodyOf(event: OwedEvent, keys: KeyRing, phone: E164 | undefined, showPhones: boolean): string {
  const { type, createMs, facts } = event;
  const shown = phone === undefined ? {} : { phone: showPhones ? phone : maskPhone(phone) };
  return JSON.stringify({
    type,
    timestamp: timeOf(createMs),
    data: { ...facts, ...referenceIn(event, keys), ...shown },
  });
}

/** Our name of the message that an event is about, as its provider was given it. */
function referenceIn({ facts, phone }: OwedEvent, keys: KeyRing): { readonly reference?: string } {
  const { copy } = facts;
  if (phone === null || typeof copy !== "number") return {};
  return { reference: referenceFor(keys, { id: phone.requestId, kid: phone.kid }, copy) };
}

/** The delivery of a message that there is an event for. A message that is tried again is not undelivered yet. */
function deliveryToTell({ delivery, dueMs }: Message): "accepted" | "delivered" | "undelivered" | undefined {
  if (delivery === "ACCEPTED") return "accepted";
  if (delivery === "DELIVERED") return "delivered";
  const isOver = (delivery === "UNDELIVERED" || delivery === "REJECTED") && dueMs === null;
  return isOver ? "undelivered" : undefined;
}

/** As GetOtp answers, as far as it lasts. No salt, no digits: nothing that a code is made of. */
function factsOf(v: Verification): Record<string, unknown> {
  return {
    request_id: v.id,
    tenant: realTenantOf(v.tenant),
    channel: v.channel,
    channels: channelsUsed(v),
    country: v.region,
    purpose: v.purpose,
    state: `STATE_${v.state}`,
    reason: v.state === "PENDING" ? null : `REASON_${terminalReason(v.state)}`,
    delivery: `DELIVERY_${v.delivery}`,
    resends: v.resends,
    create_time: timeOf(v.createMs),
    expire_time: timeOf(v.expireMs),
    end_time: timeOf(v.endMs),
    test: isSandbox(v.tenant),
  };
}

function eventId(...parts: readonly string[]): string {
  return `evt_${digest("event", ...parts)
    .subarray(0, 16)
    .toString("base64url")}`;
}
