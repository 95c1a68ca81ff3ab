/**
 * The act that reads the audit, a page at a time, the latest first: for ListAudit and for `otpd audit`.
 */
import type { AuditEntry } from "../../otp/operators/audit.ts";
import type { AuditKey, AuditQuery } from "../../store/registry.ts";
import type { Store } from "../../store/store.ts";

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  /** Undefined at the end. */
  readonly next: AuditKey | undefined;
}

/** Reads up to `max` entries. */
export async function readAudit({ registry }: Pick<Store, "registry">, query: AuditQuery): Promise<AuditPage> {
  const found = await registry.findAudit({ ...query, max: query.max + 1 });
  const page = found.slice(0, query.max);
  const last = found.length > query.max ? page.at(-1) : undefined;
  return {
    entries: page.map(({ entry }) => entry),
    next: last && { atMs: last.entry.atMs, id: last.id },
  };
}
