/**
 * Users of the console whom a reverse proxy names, as the operator maps them to what they may.
 */
import { adminScopes, type AdminScope } from "../otp/keys/admin-key.ts";
import { isUserName, type ConsoleUser } from "../otp/keys/console-session.ts";
import { isTenantName } from "../otp/operators/tenant.ts";

/** Reads `alice@example.com=admin.read+admin.write`, with `/acme` at its end for one who is bound to a tenant. Pure. */
export function parseConsoleUser(text: string): ConsoleUser | undefined {
  const [, user = "", list = "", tenant] = /^([^=]+)=([a-z.+]+)(?:\/(.+))?$/.exec(text) ?? [];
  const named = list.split("+");
  const scopes = adminScopes.filter((scope) => named.includes(scope));
  const isRight = isUserName(user) && named.every(isScope) && (tenant === undefined || isTenantName(tenant));
  return isRight ? { user, scopes, tenant: tenant ?? null } : undefined;
}

function isScope(text: string): text is AdminScope {
  return adminScopes.some((scope) => scope === text);
}
