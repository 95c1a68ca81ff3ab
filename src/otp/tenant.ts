/**
 * A tenant: an application or a team that shares this service with others, and sees nothing of theirs. It has a name, texts
 * and rules of its own; what it does not set is the operator's.
 */
import type { Policy } from "./policy.ts";
import type { Templates } from "./template/template.ts";

export interface Tenant {
  readonly id: string;
  readonly policy: Policy;
  /** The name that its messages bear. */
  readonly brand: string;
  readonly templates: Templates;
  /** Whom its receipts are for: their `aud`. */
  readonly audience: string;
}

/** Finds the tenant that a verification or a key belongs to; a sandbox has the rules of the tenant it stands beside. */
export type TenantOf = (id: string) => Tenant;
