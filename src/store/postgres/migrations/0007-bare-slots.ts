/**
 * An index of the Idempotency-Keys' records that are still under a bare digest.
 */
import type { PostgresMigration } from "../migrate.ts";

export const bareSlots: PostgresMigration = {
  name: "0007-bare-slots",
  // An instance of an earlier version may still write some.
  statements: [`CREATE INDEX idempotency_bare ON idempotency (slot) WHERE length(slot) = 16`],
};
