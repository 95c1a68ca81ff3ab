/**
 * Which numbers get messages at all. Three things decide: the number plans (is it a mobile, and whose), the operator's list
 * of countries, and the operator's lists of destinations. An entry of a list is a prefix or a whole number. The longest entry
 * that a number begins with decides last: `block` refuses the number, `allow` takes it whatever the plans and the country
 * list say.
 */
import type { Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import { objectionTo, type PhoneNumber } from "../phone-number.ts";
import type { Policy } from "./policy.ts";
import { refuse, type Refusal, type Result } from "../reason.ts";
import { isFictional, isSandbox, sandboxOutcome } from "../message/sandbox.ts";

/** What an entry says of the numbers that begin with it. */
export const verdicts = ["block", "allow"] as const;
export type Verdict = (typeof verdicts)[number];

/** An entry of a tenant's lists. */
export interface Destination {
  readonly tenant: string;
  /** `+` and 1 to 15 digits. */
  readonly prefix: string;
  readonly verdict: Verdict;
  /** What it is for, in the operator's words, or "". */
  readonly note: string;
  readonly createMs: Instant;
}

/** The most digits of a number in E.164, and so of an entry. */
export const prefixDigitsMax = 15;

/** True for what an entry may look like: `+` and 1 to 15 digits. No calling code begins with 0. Pure. */
export function isPrefix(text: string): boolean {
  return /^\+[1-9]\d{0,14}$/.test(text);
}

/** The entries that may decide about a number, the longest first: 15 at most. Pure. */
export function prefixesOf(e164: string): readonly string[] {
  const digits = Math.min(e164.length - 1, prefixDigitsMax);
  return Array.from({ length: digits }, (_, i) => e164.slice(0, digits + 1 - i));
}

/** The number whose longest entry is to be looked up; undefined where no list is asked. Pure. */
export function listedNumber(tenant: string, e164: string): string | undefined {
  return isSandbox(tenant) ? undefined : e164;
}

/**
 * Admits a number that was read: the sandbox takes fictional numbers alone, and nobody else does. No list overturns a
 * refusal of this. Pure.
 */
export function admitNumber(tenant: string, phone: Result<PhoneNumber>): Result<PhoneNumber> {
  if (isSandbox(tenant)) return admitToSandbox(phone);
  if (!phone.ok || !isFictional(phone.value.e164)) return phone;
  return refuse("PHONE_INVALID", {
    field: "phone",
    message: "phone is a fictional number, which only test keys may use.",
  });
}

/** The sandbox takes the numbers it has an outcome for, and no others. Pure. */
function admitToSandbox(phone: Result<PhoneNumber>): Result<PhoneNumber> {
  const outcome = phone.ok && phone.value.kind === "mobile" ? sandboxOutcome(phone.value.e164) : undefined;
  if (outcome === undefined) {
    return refuse("PHONE_INVALID", {
      field: "phone",
      message: "A test key takes fictional numbers only, such as +14155550100.",
    });
  }
  return outcome === "rate-limited" ? refuse("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs: 60_000 }) : phone;
}

/**
 * Why a number gets no message by a channel, or undefined when it may. `verdict` is that of its longest entry. In order: PHONE_INVALID
 * or PHONE_NOT_MOBILE, DESTINATION_BLOCKED, COUNTRY_NOT_ALLOWED; none of them for an allowed number. The country is the
 * number's, not its calling code's: `+44 7911…` is Guernsey's. The sandbox asks no list. Pure.
 */
export function refusalOf(
  tenant: string,
  { phone, channel }: { readonly phone: PhoneNumber; readonly channel: Channel },
  verdict: Verdict | undefined,
  policy: Policy,
): Refusal | undefined {
  if (isSandbox(tenant) || verdict === "allow") return undefined;
  const objection = objectionTo(phone, channel);
  if (objection !== undefined) return objection;
  if (verdict === "block") return blocked;
  const { allowedCountries: allowed } = policy;
  return allowed === undefined || allowed.has(phone.region)
    ? undefined
    : { reason: "COUNTRY_NOT_ALLOWED", field: "phone" };
}

/** The refusal of a number that an entry blocks. */
export const blocked: Refusal = { reason: "DESTINATION_BLOCKED", field: "phone" };
