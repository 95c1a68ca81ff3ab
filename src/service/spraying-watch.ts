/**
 * Warns operators when the codes of a tenant become longer because many of its phones are guessed at, and when that is over.
 * It looks every few seconds, so that no call pays for it, and warns once of each change; after a restart once more.
 */
import { isSpraying, codeLengthUnder, noGuesses, type Guesses } from "../otp/spraying.ts";
import type { TenantOf } from "../otp/tenant.ts";
import type { Store } from "../store/store.ts";
import { recurring, type Recurring, type System } from "../system.ts";

export interface SprayingWatchOptions {
  readonly store: Pick<Store, "readGuesses">;
  readonly system: Pick<System, "after">;
  readonly tenantOf: TenantOf;
  readonly warn: (message: string) => void;
  readonly onFault: (error: unknown) => void;
}

const everyMs = 15_000;

export function createSprayingWatch({ store, system, tenantOf, warn, onFault }: SprayingWatchOptions): Recurring {
  const guessedAt = new Set<string>();

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

  async function look(): Promise<void> {
    const found = await store.readGuesses();
    for (const tenant of new Set([...found.keys(), ...guessedAt])) warnOfChange(tenant, found.get(tenant) ?? noGuesses);
  }

  return recurring(system, everyMs, look, onFault);
}
