/**
 * Whether a call is let in: whose key it brings, whether that key may do this, from here, and this often. All limits of
 * addresses and keys are asked here; where a call may come from is for otp/keys/origin.ts to judge.
 *
 *   by its headers, before its body is read: key → scope, origin → the address's limit, for a publishable key → the key's limit
 *   by its message: the limit of the address that it names, and of every address for messages
 */
import { isPublishable, mayDo, type ApiKey } from "../../otp/keys/api-key.ts";
import { judgeOrigin } from "../../otp/keys/origin.ts";
import { ok, refuse, type Refusal, type Result } from "../../otp/reason.ts";
import type { CallersKey } from "../../service/callers/api-keys.ts";
import { createExpiryMap } from "../../service/callers/expiry-map.ts";
import type { Permit, CallLimits } from "../../service/callers/call-limits.ts";
import type { Tenants } from "../../service/callers/tenants.ts";
import type { Instant } from "../../system.ts";
import { canonicalAddress, type ClientAddress } from "../http/client-address.ts";
import { hostOf } from "../http/own-names.ts";
import type { Request } from "../listener/exchange.ts";
import type { Call } from "./call.ts";
import { rpcs, type RpcName } from "./rpcs.ts";

export interface AuthorizeOptions {
  readonly authenticate: (
    authorization: string | undefined,
    addressOf: () => ClientAddress,
  ) => Promise<Result<CallersKey>>;
  /** Refuses a key whose tenant refuses all of them, and bounds it as the tenant does. Passes a refusal on. */
  readonly admit: Tenants["admit"];
  readonly addressOf: (request: Request) => ClientAddress;
  readonly callLimits: CallLimits;
  readonly now: () => Instant;
  /** Gets a sentence on a secret key that came from a web page, at most once an hour for each. */
  readonly warn: (sentence: string) => void;
}

/** Who is behind a call. */
export interface Authorization {
  /** The valid key that the call brought, also when it is refused for something else. */
  readonly key: ApiKey | undefined;
  /** The address that the call counts for, unless it names another; undefined where only the key's limit holds. */
  readonly address: ClientAddress | undefined;
  /** Why the call is not let in. */
  readonly refusal: Refusal | undefined;
}

/** What a call's message says of whom it counts for, and for how much. */
export interface AskedByMessage {
  /** The address that it names, or "". */
  readonly clientIp: string;
  /** The channels by which a send may go on, as far as it names them itself. */
  readonly fallbackChannels: readonly string[];
}

export interface Authorize {
  byHeaders(request: Request, rpc: RpcName): Promise<Authorization>;
  /** The result is the permit for what the call sends, if it needs one. */
  byMessage(call: Call, key: ApiKey, asked: AskedByMessage): Result<Permit | undefined>;
}

const warnAgainMs = 3_600_000;
/** Keys whose warning is remembered. */
const warnedMax = 1_000;

export function createAuthorize(options: AuthorizeOptions): Authorize {
  const { authenticate, admit, addressOf, callLimits, now } = options;
  /** When a key may be warned of again. */
  const warned = createExpiryMap(warnedMax);

  function warnOf(keyId: string): void {
    const at = now();
    if (warned.get(keyId) > at) return;
    warned.set(keyId, at + warnAgainMs, at);
    options.warn(
      `the secret API key ${keyId} came from a web page, where everybody can read it: revoke it, and use a publishable key there`,
    );
  }

  /**
   * Why a valid key may not make this call. Everybody who opens a page shares its publishable key. So a call beyond an
   * address's limit of calls must not be taken from the key's limit: one visitor could have all others refused.
   */
  function refusalOf(request: Request, key: ApiKey, rpc: RpcName, address?: ClientAddress): Refusal | undefined {
    const { headers } = request;
    const { scope, limit } = rpcs[rpc];
    const where = judgeOrigin(key, headers.origin, hostOf(headers));
    if (!where.ok && where.refusal.reason === "SECRET_KEY_IN_BROWSER") warnOf(key.id);
    if (!mayDo(key, scope)) {
      return refuse("SCOPE_MISSING", { message: `The API key lacks the scope ${scope}.` }).refusal;
    }
    if (!where.ok) return where.refusal;
    if (address === undefined) return callLimits.key(key.id);
    const ofAddress = limit === "sends" ? callLimits.attempt : callLimits.call;
    return ofAddress(key, address.name) ?? callLimits.key(key.id);
  }

  return {
    async byHeaders(request, rpc) {
      const found = await admit(await authenticate(request.headers.authorization, () => addressOf(request)));
      if (!found.ok) return { key: undefined, address: undefined, refusal: found.refusal };
      const key = found.value;
      const address = isPublishable(key.kind) ? addressOf(request) : undefined;
      return { key, address, refusal: refusalOf(request, key, rpc, address) };
    },

    byMessage({ rpc, address }, key, { clientIp, fallbackChannels }) {
      const name = clientIp === "" ? address?.name : canonicalAddress(clientIp);
      if (name === undefined) return ok(undefined);
      // A stranger who has a page's key may not choose to have three messages sent for one.
      const messages = isPublishable(key.kind) ? 1 + fallbackChannels.length : 1;
      if (rpcs[rpc].limit === "sends") return ok(callLimits.send(key, name, messages));
      // What a publishable key's address may do was asked by the headers.
      const refusal = clientIp === "" ? undefined : callLimits.call(key, name);
      return refusal === undefined ? ok(undefined) : { ok: false, refusal };
    },
  };
}

/** Makes the function that finds where a request comes from (client-address.ts). */
export function createAddressOf(
  clientAddress: (peer: string | undefined, forwardedFor: string | undefined) => ClientAddress,
): (request: Request) => ClientAddress {
  return (request) => clientAddress(peerOf(request), whole(request.headers["x-forwarded-for"]));
}

/** The address at the other end of a request's connection. */
export function peerOf(request: Request): string | undefined {
  try {
    return request.socket.remoteAddress;
  } catch {
    // The socket of an HTTP/2 request cannot be asked once its session has gone.
    return undefined;
  }
}

/** A header as one text, however many times it was given. */
export function whole(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(",") : header;
}
