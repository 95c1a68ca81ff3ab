/**
 * Who asks the operators' service by a session of the console, and what is believed of a reverse proxy in front of it.
 */
import type { AddressRange } from "../../delivery/public-address.ts";
import { endOf, type ConsoleUser } from "../../otp/keys/console-session.ts";
import { ok, refuse } from "../../otp/reason.ts";
import type { ConsoleSessions } from "../../service/operators/console-sessions.ts";
import { createIsWithin } from "../http/client-address.ts";
import { hostOf } from "../http/own-names.ts";
import type { Request } from "../listener/exchange.ts";
import { peerOf } from "../rpc/authorize.ts";
import type { Sessions } from "./authenticate.ts";
import { hasSession, provesPage, sessionOf, type ConsoleRequest, type ConsoleOptions } from "./console-cookie.ts";
import { refuseAdmin } from "./refusal.ts";

export interface ConsoleSignIn {
  /** The addresses whose word on users is believed. */
  readonly proxies: readonly AddressRange[];
  /** The header that names the user, in lower case. */
  readonly userHeader: string;
  readonly users: readonly ConsoleUser[];
}

export interface ConsoleProxies extends Pick<ConsoleOptions, "proxiedUser" | "isSecure"> {
  /** Whether an address is a proxy's that is believed. */
  readonly isProxy: (peer: string | undefined) => boolean;
}

/**
 * What is believed of requests: a header names a user, and says that the browser speaks TLS, from a proxy alone. `isOwnName`
 * knows the names of this machine.
 */
export function createConsoleProxies(
  { proxies, userHeader, users }: ConsoleSignIn,
  isTls: boolean,
  isOwnName: (host: string | undefined) => boolean,
): ConsoleProxies {
  const byName = new Map(users.map((user) => [user.user, user]));
  const isProxy = createIsWithin(proxies);
  /**
   * A browser may come from where a proxy does, such as this machine, and a page may write any header but those of Sec-Fetch. These
   * browsers send over TLS alone, and to hosts like localhost, but not to another name that a page has pointed here.
   */
  const isPages = ({ headers }: ConsoleRequest) =>
    headers["sec-fetch-site"] === undefined && !isOwnName(hostOf(headers));
  return {
    isProxy,
    proxiedUser(request) {
      const { headers, peer } = request;
      const named = headers[userHeader];
      // Of a header that came twice nobody knows which one the proxy wrote.
      return isProxy(peer) && !isPages(request) && typeof named === "string" ? byName.get(named) : undefined;
    },
    isSecure: ({ headers, peer }) => isTls || (isProxy(peer) && headers["x-forwarded-proto"] === "https"),
  };
}

export interface SessionsOptions extends ConsoleOptions {
  readonly sessions: ConsoleSessions;
  /** Whether a tenant is there and not disabled, as of now. */
  readonly isActive: (tenant: string) => Promise<boolean>;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { addressOf, isActive } = options;
  return {
    has: (request) => hasSession(options, asked(request)),
    async find(request) {
      const found = await sessionOf(options, asked(request));
      if (found === undefined) return refuseAdmin("SESSION_INVALID");
      const { user, scopes, tenant } = found.session;
      if (tenant !== null && !(await isActive(tenant))) return refuseAdmin("SESSION_INVALID");
      // The cookie goes with whatever a browser sends here; this header with what our own page sends.
      if (!provesPage(asked(request), found.token)) return refuse("ORIGIN_NOT_ALLOWED", strange);
      const author = { actor: `user:${user}`, actorTenant: tenant ?? "", address: addressOf(asked(request)) };
      const expireMs = endOf(found.session);
      return ok({ author, name: user, keyId: "", scopes, tenant: tenant ?? undefined, expireMs });
    },
  };
}

const strange = { message: "No page but the console's own may call with its session." };

function asked(request: Request): ConsoleRequest {
  return { headers: request.headers, peer: peerOf(request) };
}
