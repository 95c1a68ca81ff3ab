/**
 * Warns operators when the codes of a tenant become longer because many of its phones are guessed at, and when that is over.
 * It looks every few seconds, so that no call pays for it, and warns once of each change; after a restart once more.
 */
import { isSandbox } from "../../otp/message/sandbox.ts";
import {
  codeLengthUnder,
  isSpraying,
  isUnusual,
  noGuesses,
  usualIn,
  type Guesses,
} from "../../otp/verification/spraying.ts";
import { hourOf } from "../../otp/operators/statistics.ts";
import type { TenantOf } from "../../otp/operators/tenant.ts";
import type { Store } from "../../store/store.ts";
import { recurring, type Recurring, type System } from "../../system.ts";

export interface SprayingWatchOptions {
  readonly store: Pick<Store, "readGuesses">;
  readonly system: Pick<System, "after">;
  readonly tenantOf: TenantOf;
  readonly warn: (message: string) => void;
  readonly onFault: (error: unknown) => void;
  /** Tells how many wrong codes are usual at a tenant in ten minutes of this hour. Without it nothing is unusual. */
  readonly usualOf?: (tenant: string) => Promise<number>;
  /** Called after each look with how many tenants are guessed at, be it by this rule or that. */
  readonly onLook?: (tenants: number) => void;
}

/** Tells what is usual, from the wrong codes that the last seven days had in the same hour. One read for a tenant and hour. */
export function createUsual(store: Pick<Store, "statistics" | "now">): (tenant: string) => Promise<number> {
  const known = new Map<string, number>();
  let knownHour = 0;
  return async function usualOf(tenant) {
    const hour = hourOf(store.now());
    if (hour !== knownHour) known.clear();
    knownHour = hour;
    const before = known.get(tenant);
    if (before !== undefined) return before;
    const refused = await store.statistics.readRefusals({ fromHour: hour - 7 * 24, toHour: hour, tenant });
    const wrong = (refused ?? []).filter(({ reason }) => reason === "CODE_MISMATCH");
    const days = Array.from(
      { length: 7 },
      (_, i) => wrong.find((each) => each.hour === hour - 24 * (i + 1))?.count ?? 0,
    );
    const usual = usualIn(days);
    known.set(tenant, usual);
    return usual;
  };
}

const everyMs = 15_000;

export function createSprayingWatch(options: SprayingWatchOptions): Recurring {
  const { store, system, tenantOf, warn, usualOf, onLook, onFault } = options;
  const guessedAt = new Set<string>();
  const unusual = new Set<string>();

  function warnOfChange(tenant: string, guesses: Guesses): void {
    if (isSpraying(guesses) === guessedAt.has(tenant)) return;
    const numbers = `${guesses.wrong} wrong codes and ${guesses.right} right ones in 10 minutes`;
    if (guessedAt.delete(tenant)) {
      warn(
        `the guessing at many phones of tenant ${tenant} is over: ${numbers}; its new codes have their usual length`,
      );
      return;
    }
    guessedAt.add(tenant);
    const { policy } = tenantOf(tenant);
    warn(
      `many phones of tenant ${tenant} are being guessed at: ${numbers}; ` +
        `its new codes have at least ${codeLengthUnder(guesses, policy.codeLength, policy)} digits until that is over`,
    );
  }

  async function warnOfUnusual(tenant: string, guesses: Guesses): Promise<void> {
    const usual =
      usualOf === undefined || !isUnusual(guesses, 0) || isSandbox(tenant) ? undefined : await usualOf(tenant);
    const isTold = usual !== undefined && isUnusual(guesses, usual);
    if (isTold === unusual.has(tenant)) return;
    if (!isTold) {
      unusual.delete(tenant);
      warn(`the wrong codes at tenant ${tenant} are as usual again: ${guesses.wrong} in 10 minutes`);
      return;
    }
    unusual.add(tenant);
    warn(
      `tenant ${tenant} has ${guesses.wrong} wrong codes in 10 minutes, and ${Math.round(usual)} are usual at this hour: ` +
        `somebody may guess amid its users`,
    );
  }

  async function look(): Promise<void> {
    const found = await store.readGuesses();
    for (const tenant of new Set([...found.keys(), ...guessedAt, ...unusual])) {
      const guesses = found.get(tenant) ?? noGuesses;
      warnOfChange(tenant, guesses);
      await warnOfUnusual(tenant, guesses);
    }
    onLook?.(new Set([...guessedAt, ...unusual]).size);
  }

  return recurring(system, everyMs, look, onFault);
}
