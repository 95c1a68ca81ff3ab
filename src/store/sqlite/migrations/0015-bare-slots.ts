/**
 * An index of the Idempotency-Keys' records that are still under a bare digest.
 */
import type { Migration } from "../migrate.ts";

export const bareSlots: Migration = {
  name: "0015-bare-slots",
  sqlite: `
      -- Names that are digests, as earlier versions stored them: each start looks for them, and finds none any more.
      CREATE INDEX idempotency_bare ON idempotency (slot) WHERE length(slot) = 16;
    `,
};
