/**
 * What a call's headers alone decide, before its body is read: whose key it is, whether that key may do this, from here,
 * and this often. key → scope, origin → the address's limit, for a publishable key → the key's limit.
 */
import { isPublishable, mayDo, type ApiKey, type Scope } from "../../otp/api-key.ts";
import { judgeOrigin } from "../../otp/origin.ts";
import { ok, refuse, type Refusal, type Result } from "../../otp/reason.ts";
import { tenantOfKey } from "../../otp/sandbox.ts";
import { createExpiryMap } from "../../service/expiry-map.ts";
import type { Quotas } from "../../service/quotas.ts";
import type { Instant } from "../../system.ts";
import type { Request } from "../listener/exchange.ts";
import type { ClientAddress } from "../http/client-address.ts";

/** Who is behind a call that was let in. */
export interface Admitted {
  readonly key: ApiKey;
  /** The address that the call counts for, unless it names another; undefined where only the key's limit holds. */
  readonly address: ClientAddress | undefined;
}

export interface AdmissionOptions {
  readonly authenticate: (authorization: string | undefined, addressOf: () => ClientAddress) => Promise<Result<ApiKey>>;
  /** Finds the caller's address. */
  readonly addressOf: (request: Request) => ClientAddress;
  readonly quotas: Pick<Quotas, "key" | "call" | "attempt">;
  readonly now: () => Instant;
  /** Told of a secret key that came from a web page, at most once an hour for each. */
  readonly warn: (sentence: string) => void;
}

/** What a request came to. `key` is the valid key it brought, also when it was refused for something else. */
export interface Admission {
  readonly key: ApiKey | undefined;
  readonly result: Result<Admitted>;
}

export type Admit = (request: Request, rpc: string) => Promise<Admission>;

/** The scope each RPC needs. An RPC without a row here is refused to everybody. */
const scopeOf: ReadonlyMap<string, Scope> = new Map([
  ["SendOtp", "send"],
  ["ResendOtp", "resend"],
  ["VerifyOtp", "verify"],
  ["GetOtp", "read"],
  ["CancelOtp", "cancel"],
]);

const warnAgainMs = 3_600_000;
/** Keys whose warning is remembered. */
const warnedMax = 1_000;

export function createAdmission(options: AdmissionOptions): Admit {
  const { authenticate, addressOf, quotas, now } = options;
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
   * Why a valid key may not make this call. A publishable key is shared by everybody who opens a page, so what is beyond
   * an address's limit must not be taken from the key's: one visitor could have all others refused.
   */
  function refusalOf(request: Request, key: ApiKey, rpc: string, address?: ClientAddress): Refusal | undefined {
    const { origin, host, ":authority": authority } = request.headers;
    const where = judgeOrigin(key, whole(origin), whole(authority) ?? host);
    if (!where.ok && where.refusal.reason === "SECRET_KEY_IN_BROWSER") warnOf(key.id);
    const scope = scopeOf.get(rpc);
    if (scope === undefined || !mayDo(key, scope)) {
      return refuse("SCOPE_MISSING", { message: `The API key lacks the scope ${scope ?? "for this call"}.` }).refusal;
    }
    if (!where.ok) return where.refusal;
    if (address === undefined) return quotas.key(key.id);
    const limit = scope === "send" || scope === "resend" ? quotas.attempt : quotas.call;
    return limit(tenantOfKey(key), address.name) ?? quotas.key(key.id);
  }

  return async function admit(request, rpc) {
    const found = await authenticate(request.headers.authorization, () => addressOf(request));
    if (!found.ok) return { key: undefined, result: found };
    const key = found.value;
    const address = isPublishable(key.kind) ? addressOf(request) : undefined;
    const refusal = refusalOf(request, key, rpc, address);
    return { key, result: refusal === undefined ? ok({ key, address }) : { ok: false, refusal } };
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
function whole(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(",") : header;
}
