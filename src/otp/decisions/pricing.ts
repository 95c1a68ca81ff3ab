/**
 * What the next message of a verification may cost at most: the price of the dearest provider that may be asked for it,
 * times the segments that its text can take.
 */
import type { Channel } from "../channel.ts";
import type { Code } from "../message/code.ts";
import { dearest, type Prices } from "../message/prices.ts";
import { Secret } from "../keys/secret.ts";
import type { PriceOf } from "./spending.ts";
import type { ChargeOf, Sent } from "../operators/statistics.ts";
import { measure } from "../template/encoding.ts";
import { minutesMax, renderText } from "../template/template.ts";
import type { Tenant, TenantOf } from "../operators/tenant.ts";
import type { Verification } from "../verification/verification.ts";

/** Texts of one tenant whose segments are remembered. */
const textsKnownMax = 500;

export interface CostOptions {
  readonly prices: Prices;
  readonly tenantOf: TenantOf;
}

interface ChargeOptions {
  readonly prices: Prices | undefined;
  readonly tenantOf: TenantOf;
}

/** Tells what the next message of a verification costs at most with any of some providers, in millionths. Pure. */
export type CostOf = (verification: Verification, channel: Channel, providers: readonly string[]) => number | undefined;

export function createCostOf({ prices, tenantOf }: CostOptions): CostOf {
  return (verification, channel, providers) => {
    const segments = channel === "sms" ? segmentsOf(verification, tenantOf(verification.tenant)) : 1;
    return dearest(prices, { country: verification.region, channel }, providers, segments);
  };
}

/** `providersOf` tells the names of the providers that a channel's messages may go to. */
export function createPricing(costOf: CostOf, providersOf: (channel: Channel) => readonly string[]): PriceOf {
  return (verification, channel) => costOf(verification, channel, providersOf(channel));
}

/**
 * Tells what a message takes once a provider has it: its segments, and its cost where there is a price. What texts take is
 * remembered for as long as their tenant stays as it is.
 */
export function createChargeOf({ prices, tenantOf }: ChargeOptions): ChargeOf {
  const known = new WeakMap<Tenant, Map<string, number>>();
  const segmentsOfText = (sent: Sent) => {
    const tenant = tenantOf(sent.tenant);
    const own = known.get(tenant) ?? new Map<string, number>();
    known.set(tenant, own);
    const { region, locale, purpose, webOrigin, appHash, digits } = sent;
    const key = JSON.stringify([region, locale, purpose, webOrigin, appHash, digits]);
    const segments = own.get(key) ?? segmentsOf(sent, tenant);
    if (own.size >= textsKnownMax) own.clear();
    own.set(key, segments);
    return segments;
  };
  return (sent) => {
    const { region: country, channel, provider } = sent;
    const segments = channel === "sms" ? segmentsOfText(sent) : 1;
    const amount = prices && dearest(prices, { country, channel }, [provider], segments);
    return { segments, cost: prices && amount !== undefined ? { amount, currency: prices.currency } : undefined };
  };
}

/** The segments that an SMS of a verification takes at most. A code has one width, whatever it is. Pure. */
function segmentsOf(verification: Omit<Sent, "provider">, { templates, brand }: Tenant): number {
  const template = templates.templateFor(verification);
  const { purpose, webOrigin, appHash, digits } = verification;
  const code = new Secret("0".repeat(digits)) as Code;
  // How many minutes it says is known when it is sent; some texts are longer with fewer.
  const texts = Array.from({ length: minutesMax }, (_, i) =>
    renderText(template, { code, brand, purpose, lifeLeftMs: (i + 1) * 60_000, webOrigin, appHash }),
  );
  return Math.max(...new Set(texts.map((text) => measure(text).segments)));
}
