/**
 * Suspects by an index of their own.
 */
import type { PostgresMigration } from "../migrate.ts";

export const suspects: PostgresMigration = {
  name: "0017-suspects",
  // Most decisions are that a block passed: to list suspects, all of them were looked at. There are at most 100 of a prefix, so
  // it is made within the migration; a decision waits for that as long as it takes, some seconds at a million.
  statements: [`CREATE INDEX prefix_decisions_suspect ON prefix_decisions (tenant, prefix, at_ms) WHERE kind <> 0`],
};
