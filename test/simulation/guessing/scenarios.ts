/**
 * The years that docs/security.md has a row for: who is attacked, under which rules, and the attacker's best way.
 */
import type { FallbackPlan } from "../../../src/otp/message/fallback.ts";
import type { Policy } from "../../../src/otp/verification/policy.ts";
import { policy as defaults } from "../../support/data/examples.ts";
import { Attacker, Owner, type WayName } from "./actors.ts";
import { figuresOf, type Figures } from "./figures.ts";
import { World, play } from "./world.ts";

export interface Scenario {
  /** As the document's row is called. */
  readonly name: string;
  readonly policy: Policy;
  readonly tenants: number;
  readonly isOwnerActive: boolean;
  readonly hasFirstFactor: boolean;
}

/** An operator's order of channels, as `OTP_FALLBACK=sms>whatsapp>voice@30s`: two more messages a request. */
export const fallback: FallbackPlan = { channels: ["sms", "whatsapp", "voice"], afterMs: 30_000 };

const phone = "+31612345678";
const plain = { policy: defaults, tenants: 1, isOwnerActive: false, hasFirstFactor: false };

export const scenarios: readonly Scenario[] = [
  { ...plain, name: "idle owner" },
  { ...plain, name: "owner who signs in every day", isOwnerActive: true },
  { ...plain, name: "attacker who has the password too", hasFirstFactor: true },
  { ...plain, name: "one phone at two tenants", tenants: 2, isOwnerActive: true },
  { ...plain, name: "`OTP_CODE_LENGTH_MAX=10`", policy: { ...defaults, codeLengthMax: 10 } },
  { ...plain, name: "`OTP_CODE_LENGTH_MAX=6`", policy: { ...defaults, codeLengthMax: 6 } },
  { ...plain, name: "`OTP_GUESS_POLICY=strict`", policy: { ...defaults, guessPolicy: "strict" } },
];

export function scenarioCalled(name: string): Scenario {
  const found = scenarios.find((scenario) => scenario.name === name);
  if (found === undefined) throw new Error(`no scenario is called ${name}`);
  return found;
}

export interface Year {
  readonly figures: Figures;
  readonly signIns: { readonly all: number; readonly known: number };
}

/** Plays a scenario for so many days. Rejects when a limit, a length or the owner's right is broken. */
export async function playScenario(
  { policy, tenants, isOwnerActive, hasFirstFactor }: Scenario,
  way: WayName,
  days = 365,
  world = new World(policy),
): Promise<Year> {
  const targets = Array.from({ length: tenants }, (_, i) => ({ tenant: `tenant-${i}`, phone }));
  const attackers = targets.map((target) => new Attacker(world, target, way, hasFirstFactor));
  const owners = isOwnerActive ? targets.map((target) => new Owner(world, target)) : [];
  await play(world, [...attackers, ...owners], days);
  world.ledger.inspect(policy.phoneLimits);
  const sum = (of: (owner: Owner) => number) => owners.reduce((total, owner) => total + of(owner), 0);
  return {
    figures: figuresOf(world),
    signIns: { all: sum(({ signIns }) => signIns.all), known: sum(({ signIns }) => signIns.known) },
  };
}
