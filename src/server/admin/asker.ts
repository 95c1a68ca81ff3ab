/**
 * Who asks the operators' service, and what they may see: if bound to a tenant, nothing of another's.
 */
import type { AdminScope } from "../../otp/keys/admin-key.ts";
import type { Author } from "../../otp/operators/audit.ts";
import { ok } from "../../otp/reason.ts";
import { defaultTenant } from "../../otp/operators/tenant.ts";
import { notFound, refuseAdmin, type AdminRefusal, type AdminResult } from "./refusal.ts";

export interface Asker {
  /** As the audit has it. */
  readonly author: Author;
  /** The key's name, or the user. */
  readonly name: string;
  /** The key's id, for logs; empty for a session. */
  readonly keyId: string;
  readonly scopes: readonly AdminScope[];
  /** The tenant that it is bound to. */
  readonly tenant: string | undefined;
  /** When the key or the session ends; null for never. */
  readonly expireMs: number | null;
}

/** Refuses for want of a scope. */
export function lacking(scope: AdminScope): { readonly ok: false; readonly refusal: AdminRefusal } {
  return refuseAdmin("SCOPE_MISSING", { message: `The API key lacks the scope ${scope}.` });
}

/** Refuses an admin of one tenant what is for those of all. */
export const forOperators = refuseAdmin("SCOPE_MISSING", {
  message: "This is for admins that are bound to no tenant.",
});

/** The tenant that a list is asked for; undefined for all of them. NOT_FOUND for another's. Whether it is there is not looked at. */
export function tenantListed({ tenant: own }: Asker, asked: string): AdminResult<string | undefined> {
  if (own === undefined) return ok(asked === "" ? undefined : asked);
  return asked === "" || asked === own ? ok(own) : notFound;
}

/** The tenant that something is done to: the admin's own, or `default`, where it names none. NOT_FOUND for another's. */
export function tenantMeant(asker: Asker, asked: string): AdminResult<string> {
  const listed = tenantListed(asker, asked);
  return listed.ok ? ok(listed.value ?? defaultTenant) : listed;
}

/** Whether what belongs to a tenant is there for an admin; null and "" are no tenant's. */
export function sees({ tenant: own }: Asker, tenant: string | null): boolean {
  return own === undefined || own === tenant;
}
