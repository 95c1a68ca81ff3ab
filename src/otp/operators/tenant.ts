/**
 * A tenant: an application or a team that shares this service with others, and sees nothing of theirs. It has a name, texts
 * and rules of its own; what it does not set is the operator's.
 */
import type { Instant } from "../../system.ts";
import type { NamedLimits } from "../limits/named-limit.ts";
import type { Policy } from "../verification/policy.ts";
import type { Templates } from "../template/choice.ts";

export interface Tenant {
  readonly id: string;
  readonly policy: Policy;
  /** The name that its messages bear. */
  readonly brand: string;
  readonly templates: Templates;
  /** Whom its receipts are for: their `aud`. */
  readonly audience: string;
  /** The origins that its web pages may have, in canonical form, or undefined for any. */
  readonly origins: ReadonlySet<string> | undefined;
  /** True while its keys are refused and nothing of it is sent. */
  readonly isDisabled: boolean;
  /** The limits that its sends may name, if there are any. */
  readonly limits?: NamedLimits | undefined;
  /** True if it has an endpoint that is told of events. */
  readonly hasWebhooks?: boolean;
}

/** The tenant that comes with the database: whoever names none means it. */
export const defaultTenant = "default";

/** Finds the tenant that a verification or a key belongs to; a sandbox has the rules of the tenant it stands beside. */
export type TenantOf = (id: string) => Tenant;

export interface TenantRecord {
  readonly id: string;
  /** A JSON object of its settings by name, each as it was written. Read by config/tenant-settings.ts. */
  readonly settings: string;
  readonly createMs: Instant;
  /** When it was disabled; null while it is not. */
  readonly disableMs: Instant | null;
  /** Grows with every write to any tenant. */
  readonly revision: number;
  /** True if any of its endpoints is not disabled. */
  readonly hasWebhooks?: boolean;
}

/** Every server keeps them all in memory. */
export const tenantsMax = 10_000;

/** What a tenant may be called. There is no `+` in it: that is what a sandbox is told by. Pure. */
export function isTenantName(text: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,39}$/.test(text);
}
