/**
 * Statistics: what verifications and their messages came to, as sums of an hour. Everything counts in the hour in which
 * its verification was asked for. A verification counts at the channel asked for and the provider that took its first
 * message, a message at its own channel and provider. The sandbox is left out: nothing of it leaves.
 *
 * Sums are only ever added. So one rule (`merge`) joins stored sums, those of rows that are not summed yet, and the
 * difference that a late report makes.
 */
import { hourMs, type Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import type { Message } from "../message/message.ts";
import { isSandbox } from "../message/sandbox.ts";
import type { State } from "../state.ts";
import { lifeMaxMs, type Verification } from "../verification/verification.ts";

export const sumsKeptHours = 400 * 24;

/**
 * Where the steps of the time to verify end, in milliseconds; one more step is beyond them all. Fixed: sums of different steps
 * could not be added.
 */
export const stepEndsMs = [
  1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 12_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000,
  60_000, 75_000, 90_000, 120_000, 150_000, 180_000, 240_000, 300_000, 420_000,
] as const;

/** What is summed. `cost` is in millionths of the key's currency. */
export const counts = [
  "asked",
  "messages",
  "segments",
  "delivered",
  "undelivered",
  "verified",
  "expired",
  "locked",
  "canceled",
  "failed",
  "cost",
] as const;
export type Count = (typeof counts)[number];
type Step = `step_${number}`;
export type Measure = Count | Step;

export const steps: readonly Step[] = Array.from({ length: stepEndsMs.length + 1 }, (_, i): Step => `step_${i}`);
export const measures: readonly Measure[] = [...counts, ...steps];

/** Sums by what they are of. What is absent is 0. */
export type Sums = Partial<Readonly<Record<Measure, number>>>;

/** What sums are of. */
export interface SumKey {
  /** Whole hours since the epoch. */
  readonly hour: number;
  readonly tenant: string;
  readonly country: string;
  /** Empty for none. */
  readonly provider: string;
  readonly channel: Channel;
  /** Of the cost; empty for none. */
  readonly currency: string;
}

export interface SumRow extends SumKey {
  readonly sums: Sums;
}

/** The count that a verification of a state is in besides `asked`. */
const countOfState: Readonly<Record<State, Count | undefined>> = {
  PENDING: undefined,
  VERIFIED: "verified",
  EXPIRED: "expired",
  LOCKED: "locked",
  CANCELED: "canceled",
  FAILED: "failed",
};

/** What decides how many segments a message has, and what it costs. */
export interface Sent extends Pick<
  Verification,
  "tenant" | "region" | "locale" | "purpose" | "webOrigin" | "appHash" | "digits"
> {
  readonly channel: Channel;
  readonly provider: string;
}

/** What one message takes. */
export interface Charge {
  /** Segments of a text; 1 for a call or another message. */
  readonly segments: number;
  /** Millionths; absent where no price is known. */
  readonly cost?: { readonly amount: number; readonly currency: string } | undefined;
}

export type ChargeOf = (sent: Sent) => Charge;
export const noCharge: ChargeOf = () => ({ segments: 0 });

/** What is known of a message's way. */
type MessageDelivery = Pick<Message, "delivery" | "provider" | "providerMessageId">;

/** How a message stands that a provider has surely taken. */
export const takenDeliveries: readonly Message["delivery"][] = ["ACCEPTED", "DELIVERED", "UNDELIVERED"];

/** Whether a provider has taken a message: by how it stands, or by the id that the provider gave it. Pure. */
export function isTaken({ delivery, providerMessageId }: MessageDelivery): boolean {
  return takenDeliveries.includes(delivery) || providerMessageId !== null;
}

/** Whether a message did not arrive, as far as that is known. Pure. */
function isUndelivered(message: MessageDelivery): boolean {
  const { delivery } = message;
  return delivery === "UNDELIVERED" || delivery === "REJECTED" || (delivery === "EXPIRED" && !isTaken(message));
}

/** What is counted of a verification. */
export type TalliedVerification = Omit<Sent, "channel" | "provider"> &
  Pick<Verification, "channel" | "state" | "createMs" | "endMs">;
/** What is counted of a message. */
export type TalliedMessage = MessageDelivery & Pick<Message, "copy" | "channel">;

/**
 * The sums of one message; with a verification's first, those of the verification too. Of so many `times` that are counted
 * alike. Pure.
 */
export function tally(
  verification: TalliedVerification,
  message: TalliedMessage,
  chargeOf: ChargeOf,
  times = 1,
): SumRow[] {
  const { tenant, region: country } = verification;
  if (isSandbox(tenant)) return [];
  const of = { hour: hourOf(verification.createMs), tenant, country };
  const provider = message.provider ?? "";
  const sums: Sums = {
    messages: isTaken(message) ? times : 0,
    delivered: message.delivery === "DELIVERED" ? times : 0,
    undelivered: isUndelivered(message) ? times : 0,
  };
  const own = charged({ ...of, provider, channel: message.channel, currency: "", sums }, () =>
    chargeOf({ ...verification, channel: message.channel, provider }),
  );
  if (message.copy > 0) return [own];
  const first = isTaken(message) ? provider : "";
  const { channel } = verification;
  return [{ ...of, provider: first, channel, currency: "", sums: endOf(verification, times) }, own];
}

/** What a verification itself is counted as. */
function endOf({ state, createMs, endMs }: TalliedVerification, times: number): Sums {
  const count = countOfState[state];
  const isVerified = state === "VERIFIED" && endMs !== null;
  return {
    asked: times,
    ...(count === undefined ? {} : { [count]: times }),
    ...(isVerified ? { [stepOf(endMs - createMs)]: times } : {}),
  };
}

function stepOf(ms: number): Step {
  const step = stepEndsMs.findIndex((end) => ms <= end);
  return `step_${step < 0 ? stepEndsMs.length : step}`;
}

/** Sums of messages that are charged alike, with what they take. Pure. */
function charged(row: SumRow, charge: () => Charge): SumRow {
  const messages = row.sums.messages ?? 0;
  if (messages === 0) return row;
  const { segments, cost } = charge();
  return {
    ...row,
    currency: cost?.currency ?? "",
    sums: { ...row.sums, segments: messages * segments, cost: messages * (cost?.amount ?? 0) },
  };
}

const keyOfSums = (row: SumKey): string =>
  [row.hour, row.tenant, row.country, row.provider, row.channel, row.currency].join("|");

/** Adds what is of the same. Rows that come to nothing are left out. Pure. */
export function merge(rows: Iterable<SumRow>): SumRow[] {
  const merged = new Map<string, SumRow>();
  for (const row of rows) {
    const key = keyOfSums(row);
    const before = merged.get(key);
    merged.set(key, before === undefined ? row : { ...row, sums: added(before.sums, row.sums) });
  }
  return [...merged.values()].filter(({ sums }) => measures.some((measure) => (sums[measure] ?? 0) !== 0));
}

/** What is to be added to what was summed, so that it becomes what is. Pure. */
export function difference(was: readonly SumRow[], is: readonly SumRow[]): SumRow[] {
  const taken = was.map((row) => ({ ...row, sums: negative(row.sums) }));
  return merge([...taken, ...is]);
}

export function added(a: Sums, b: Sums): Sums {
  const sums: Partial<Record<Measure, number>> = { ...a };
  for (const measure of measures) {
    const more = b[measure] ?? 0;
    if (more !== 0) sums[measure] = (sums[measure] ?? 0) + more;
  }
  return sums;
}

function negative(sums: Sums): Sums {
  return Object.fromEntries(measures.map((measure) => [measure, -(sums[measure] ?? 0)]));
}

/**
 * The time within which a share of verifications was verified: the end of the step of the histogram in which the one at
 * that place is. Undefined where there is none. Pure.
 */
export function verifyTimeMs(sums: Sums, share: number): number | undefined {
  const total = steps.reduce((sum, step) => sum + (sums[step] ?? 0), 0);
  if (total <= 0) return undefined;
  const place = Math.ceil(total * share);
  let passed = 0;
  const step = steps.findIndex((each) => (passed += sums[each] ?? 0) >= place);
  return stepEndsMs[step] ?? lifeMaxMs;
}

// ---- what is asked for ----------------------------------------------------------------------------------------------

export const dimensions = ["tenant", "country", "provider", "channel"] as const;
export type Dimension = (typeof dimensions)[number];
export type Interval = "all" | "hour" | "day";

/** Asks for sums of whole hours. */
export interface SumsQuery {
  readonly fromHour: number;
  /** That one excluded. */
  readonly toHour: number;
  readonly interval: Interval;
  readonly groupBy: readonly Dimension[];
  /** Undefined for all. */
  readonly tenant?: string | undefined;
}

/** The sums of one step of time and one group. What is not grouped by is empty. */
export interface StatsRow extends Readonly<Record<Dimension, string>> {
  /** The step's first hour; 0 where the whole period is one. */
  readonly hour: number;
  readonly sums: Sums;
  /** Millionths by currency. */
  readonly costs: ReadonlyMap<string, number>;
}

/** A sum row as it was asked for: its step of time, and the groups. */
export type GroupedRow = Pick<StatsRow, "hour" | Dimension | "sums"> & { readonly currency: string };

/** Brings rows together, in the order of time and then of the groups. Pure. */
export function grouped(rows: Iterable<GroupedRow>): StatsRow[] {
  const found = new Map<string, Omit<StatsRow, "sums" | "costs"> & { sums: Sums; costs: Map<string, number> }>();
  for (const { hour, tenant, country, provider, channel, currency, sums } of rows) {
    const key = [hour, tenant, country, provider, channel].join("|");
    let row = found.get(key);
    if (row === undefined) {
      row = { hour, tenant, country, provider, channel, sums, costs: new Map<string, number>() };
      found.set(key, row);
    } else {
      row.sums = added(row.sums, sums);
    }
    const cost = sums.cost ?? 0;
    if (cost !== 0) row.costs.set(currency, (row.costs.get(currency) ?? 0) + cost);
  }
  const orderOf = (row: StatsRow) => dimensions.map((dimension) => row[dimension]).join("|");
  return [...found.values()].toSorted((a, b) => a.hour - b.hour || (orderOf(a) < orderOf(b) ? -1 : 1));
}

export const hourOf = (instant: Instant): number => Math.floor(instant / hourMs);
