/**
 * Who asks the operators' service: the bearer of an admin key, or whoever a session of the console names. No other
 * place finds that out.
 */
import type { AdminKey } from "../../otp/keys/admin-key.ts";
import { hasKey } from "../../otp/keys/api-key.ts";
import { ok, refuse, type Result } from "../../otp/reason.ts";
import type { ClientAddress } from "../http/client-address.ts";
import type { Request } from "../listener/exchange.ts";
import type { Asker } from "./asker.ts";
import type { AdminResult } from "./refusal.ts";

/** Sessions of people, beside keys. */
export interface Sessions {
  /** Whether a request brings one, valid or not. No look-up. */
  has(request: Request): boolean;
  /** Who it is: SESSION_INVALID for a session that is over. */
  find(request: Request): Promise<AdminResult<Asker>>;
}

export interface AdminAuthenticateOptions {
  /** Judges an `Authorization` header; wrong keys of an address are bounded. */
  readonly authenticate: (header: string | undefined, addressOf: () => ClientAddress) => Promise<Result<AdminKey>>;
  readonly addressOf: (request: Request) => ClientAddress;
  /** Whether a tenant is there and not disabled, as of now. */
  readonly isActive: (tenant: string) => Promise<boolean>;
  readonly sessions?: Sessions | undefined;
}

export interface AdminAuthentication {
  hasCredentials(request: Request): boolean;
  authenticate(request: Request): Promise<AdminResult<Asker>>;
}

/** A key wins over a session: who brings one means it. */
export function createAdminAuthentication(options: AdminAuthenticateOptions): AdminAuthentication {
  const { addressOf, isActive, sessions } = options;
  return {
    hasCredentials: (request) => hasKey(request.headers.authorization) || sessions?.has(request) === true,
    async authenticate(request) {
      const { authorization } = request.headers;
      if (!hasKey(authorization) && sessions?.has(request) === true) return sessions.find(request);
      const found = await options.authenticate(authorization, () => addressOf(request));
      if (!found.ok) return found;
      const { id, name, scopes, tenant, expireMs } = found.value;
      if (tenant !== null && !(await isActive(tenant))) return refuse("API_KEY_REVOKED");
      const address = addressOf(request);
      const author = { actor: `key:${id}`, actorTenant: tenant ?? "", address: address.text ?? address.name };
      return ok({ author, name, keyId: id, scopes, tenant: tenant ?? undefined, expireMs });
    },
  };
}
