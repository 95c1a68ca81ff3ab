/**
 * Suspects by an index of their own.
 */
import type { Migration } from "../migrate.ts";

export const suspects: Migration = {
  name: "0026-suspects",
  sqlite: `
      -- Most decisions are that a block passed: to list suspects, all of them were looked at.
      CREATE INDEX prefix_decisions_suspect ON prefix_decisions (tenant, prefix, at_ms) WHERE kind <> 0;
    `,
};
