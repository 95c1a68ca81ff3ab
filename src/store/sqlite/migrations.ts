/**
 * The schema, as an append-only list: an entry that was released is never changed, and what comes later is added at the
 * end. Each entry runs in a transaction of its own together with the note that it ran.
 *
 * Times are `*_ms`, whole milliseconds since the Unix epoch. Enumerations are stored as small numbers (rows/).
 * Tables are clustered on their keys (WITHOUT ROWID): a row and its key are stored once, and a pending verification
 * takes well under 600 bytes with all its rows and indexes.
 */
import type { Migration } from "./migrate.ts";
import { first } from "./migrations/0001-first.ts";
import { publishableKeys } from "./migrations/0002-publishable-keys.ts";
import { tenants } from "./migrations/0003-tenants.ts";
import { destinations } from "./migrations/0004-destinations.ts";
import { prefixes } from "./migrations/0005-prefixes.ts";
import { guesses } from "./migrations/0006-guesses.ts";
import { byAge } from "./migrations/0007-by-age.ts";
import { events } from "./migrations/0008-events.ts";
import { eventsByEndpoint } from "./migrations/0009-events-by-endpoint.ts";
import { warnedCap } from "./migrations/0010-warned-cap.ts";
import { channel } from "./migrations/0011-channel.ts";
import { counters } from "./migrations/0012-counters.ts";
import { log } from "./migrations/0013-log.ts";
import { prefixJournal } from "./migrations/0014-prefix-journal.ts";
import { bareSlots } from "./migrations/0015-bare-slots.ts";
import { keyChannels } from "./migrations/0016-key-channels.ts";
import { ofPhone } from "./migrations/0017-of-phone.ts";
import { messagesByVerification } from "./migrations/0018-messages-by-verification.ts";
import { spending } from "./migrations/0019-spending.ts";
import { fallback } from "./migrations/0020-fallback.ts";
import { spentLimits } from "./migrations/0021-spent-limits.ts";
import { audit } from "./migrations/0022-audit.ts";
import { sums } from "./migrations/0023-sums.ts";
import { consoleSignIns } from "./migrations/0024-console.ts";
import { lastRefused } from "./migrations/0025-last-refused.ts";
import { suspects } from "./migrations/0026-suspects.ts";
import { auditFilters } from "./migrations/0027-audit-filters.ts";
import { daySums } from "./migrations/0028-day-sums.ts";

export const migrations: readonly Migration[] = [
  first,
  publishableKeys,
  tenants,
  destinations,
  prefixes,
  guesses,
  byAge,
  events,
  eventsByEndpoint,
  warnedCap,
  channel,
  counters,
  log,
  prefixJournal,
  bareSlots,
  keyChannels,
  ofPhone,
  messagesByVerification,
  spending,
  fallback,
  spentLimits,
  audit,
  sums,
  consoleSignIns,
  lastRefused,
  suspects,
  auditFilters,
  daySums,
];
