/**
 * The schema on PostgreSQL, as an append-only list. It says the same as the one for SQLite (sqlite/migrations.ts), and
 * begins with the schema that SQLite had when PostgreSQL came.
 *
 * Instances of two versions share a database while one takes the other's place, and each of the older ones may be started
 * again meanwhile. So every migration is one of two kinds:
 *
 * - An expansion adds what the version before can do without: a table, an index, a column with a default or without NOT
 *   NULL. It changes no meaning: a new value in an old column is for the version after the one that can read it. Every
 *   version that was there goes on.
 * - A contraction takes away what is unused by every version that knows at least `least` migrations. Older ones are refused
 *   from then on, so it comes a version later than the one that could do without.
 *
 * It runs in one transaction while others serve: what locks a table that they write has 4 s to get its lock.
 */
import type { PostgresMigration } from "./migrate.ts";
import { first } from "./migrations/0001-first.ts";
import { warnedCap } from "./migrations/0002-warned-cap.ts";
import { channel } from "./migrations/0003-channel.ts";
import { log } from "./migrations/0004-log.ts";
import { counters } from "./migrations/0005-counters.ts";
import { lots } from "./migrations/0006-lots.ts";
import { bareSlots } from "./migrations/0007-bare-slots.ts";
import { keyChannels } from "./migrations/0008-key-channels.ts";
import { spending } from "./migrations/0009-spending.ts";
import { fallback } from "./migrations/0010-fallback.ts";
import { spentLimits } from "./migrations/0011-spent-limits.ts";
import { finding } from "./migrations/0012-finding.ts";
import { audit } from "./migrations/0013-audit.ts";
import { sums } from "./migrations/0014-sums.ts";
import { consoleSignIns } from "./migrations/0015-console.ts";
import { lastRefused } from "./migrations/0016-last-refused.ts";
import { suspects } from "./migrations/0017-suspects.ts";
import { auditFilters } from "./migrations/0018-audit-filters.ts";
import { daySums } from "./migrations/0019-day-sums.ts";

export const postgresMigrations: readonly PostgresMigration[] = [
  first,
  warnedCap,
  channel,
  log,
  counters,
  lots,
  bareSlots,
  keyChannels,
  spending,
  fallback,
  spentLimits,
  finding,
  audit,
  sums,
  consoleSignIns,
  lastRefused,
  suspects,
  auditFilters,
  daySums,
];
