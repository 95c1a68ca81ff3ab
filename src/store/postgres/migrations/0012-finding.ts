/**
 * Verifications by when they were opened, for whoever looks for them.
 */
import type { PostgresMigration } from "../migrate.ts";

export const finding: PostgresMigration = {
  name: "0012-finding",
  // On SQLite messages are in that order already.
  statements: [`CREATE INDEX verifications_opened ON verifications (create_ms, id)`],
};
