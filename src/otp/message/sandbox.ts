/**
 * The sandbox: what test keys (`otp_test_…`) work on. It takes fictional numbers only (+1, any area code, 555 01xx: no
 * telephone company may assign them), one per outcome, with a fixed code, and no message ever reaches a provider. Its
 * verifications live in a tenant of their own beside the real one, so nothing of them can be seen or used with a live
 * key, or the other way round.
 */
import { isTest, type ApiKey } from "../keys/api-key.ts";
import type { Channel } from "../channel.ts";
import type { SendOutcome } from "./message.ts";
import { Secret } from "../keys/secret.ts";

/** What a fictional number leads to. */
export type SandboxOutcome =
  | "delivered"
  | "undelivered"
  | "provider-down"
  | "refused"
  | "rate-limited"
  | "expired"
  | "locked"
  | "long-code"
  | `undelivered by ${Channel}`
  | `refused by ${Channel}`;

/** By the last two digits. Part of the contract: never reassigned. */
const outcomes: ReadonlyMap<string, SandboxOutcome> = new Map([
  ["00", "delivered"],
  ["01", "undelivered"],
  ["02", "provider-down"],
  ["03", "refused"],
  ["04", "rate-limited"],
  ["05", "expired"],
  ["06", "locked"],
  ["07", "long-code"],
  ["08", "undelivered by sms"],
  ["09", "undelivered by voice"],
  ["10", "undelivered by whatsapp"],
  ["11", "refused by sms"],
  ["12", "refused by voice"],
  ["13", "refused by whatsapp"],
]);

/** True for a number that no telephone company may assign. Pure. */
export function isFictional(e164: string): boolean {
  return /^\+1\d{3}55501\d\d$/.test(e164);
}

/** What a number leads to in the sandbox; undefined for one that the sandbox does not take. Pure. */
export function sandboxOutcome(e164: string): SandboxOutcome | undefined {
  return isFictional(e164) ? outcomes.get(e164.slice(-2)) : undefined;
}

const suffix = "+test";

/** The tenant in which a real tenant's test keys work. */
export function sandboxOf(tenant: string): string {
  return tenant + suffix;
}

/** The tenant that a key works in: its own, or the sandbox beside it. Pure. */
export function tenantOfKey({ kind, tenant }: Pick<ApiKey, "kind" | "tenant">): string {
  return isTest(kind) ? sandboxOf(tenant) : tenant;
}

/** The tenant that a sandbox stands beside; any other tenant is its own. */
export function realTenantOf(tenant: string): string {
  return isSandbox(tenant) ? tenant.slice(0, -suffix.length) : tenant;
}

export function isSandbox(tenant: string): boolean {
  return tenant.endsWith(suffix);
}

const longCodeDigits = 8;

/**
 * How many digits a number's codes have. Its past does not count: a test run guesses wrong on one number all day, and
 * leaves requests open, and its code must stay the one that is documented. Pure.
 */
export function sandboxDigits(e164: string, codeLength: number): number {
  return sandboxOutcome(e164) === "long-code" ? longCodeDigits : codeLength;
}

/** The code of so many digits, 6 to 10: 123456 unless another length is configured. */
export function sandboxCode(digits: number): Secret {
  return new Secret("1234567890".slice(0, digits));
}

/** What the sandbox's own provider answers to a message of a channel. Pure. */
export function sandboxSend(e164: string, channel: Channel): SendOutcome {
  const outcome = sandboxOutcome(e164);
  if (outcome === "provider-down") return { kind: "unavailable", detail: "the sandbox's provider is down" };
  if (outcome === "refused" || outcome === `refused by ${channel}`) {
    return { kind: "refused", cause: "recipient", detail: "the sandbox refuses this number" };
  }
  const isLost = outcome === "undelivered" || outcome === `undelivered by ${channel}`;
  return { kind: "accepted", delivery: isLost ? "UNDELIVERED" : "DELIVERED" };
}
