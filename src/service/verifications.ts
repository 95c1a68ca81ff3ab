/**
 * The acts of the service: send, verify, resend, cancel, get. Each gathers what takes randomness or a key, runs one
 * decision in the store, and turns its result into an answer. The rules are in otp/decisions.ts, the atomicity is the
 * store's; what is here is the order of events.
 */
import { saltBytes } from "../otp/code.ts";
import { idempotencyClaim, type IdempotencyClaim, type MutatingRpc, type StoredAnswer } from "../otp/idempotency.ts";
import type { KeyRing } from "../otp/key-ring.ts";
import type { Delivery } from "../otp/message.ts";
import { openPhone, parsePhoneNumber, phoneIndex, sealPhone, type E164 } from "../otp/phone-number.ts";
import { dailyMaxOf, type Share } from "../otp/daily-cap.ts";
import { admitNumber, listedNumber } from "../otp/destination.ts";
import { ok, refuse, type Reason, type Refusal, type Result } from "../otp/reason.ts";
import { receiptOf } from "../otp/receipt.ts";
import { realTenantOf } from "../otp/sandbox.ts";
import type { Secret } from "../otp/secret.ts";
import type { AndroidAppHash, WebOrigin } from "../otp/template/last-line.ts";
import type { TenantOf } from "../otp/tenant.ts";
import {
  decideCancel,
  decideResend,
  decideSend,
  decideVerify,
  type Replay,
  type SendFacts,
  type VerifyResult,
} from "../otp/decisions.ts";
import { canonicalBind, stateAt, terminalReason, type State, type Verification } from "../otp/verification.ts";
import type { Store, UpdateScope } from "../store/store.ts";
import type { Instant, System } from "../system.ts";
import { createBotGate } from "./bot-gate.ts";
import type { BotCheck } from "./bot-check.ts";
import { createHandOver, sentAt, type HandOverOptions } from "./hand-over.ts";
import { bucketsOf, phoneRefs } from "./phone-refs.ts";
import { isGuarded, prefixRef } from "./prefixes.ts";
import { keptIfSpent, unlimited, type Place } from "./quotas.ts";

/** Who is asking: an authenticated API key. */
export interface Caller {
  readonly tenant: string;
  readonly keyId: string;
  /** The call's Idempotency-Key, if it has one. */
  readonly idempotencyKey: string | undefined;
  /** True if the key is one that anybody may hold, such as a web page's. */
  readonly isPublishable: boolean;
  /** The address that the call comes from, where it is known. */
  readonly address?: string | undefined;
  /** Its place in the limit of the address it sends for; absent where there is no such limit. */
  readonly place?: Place;
}

export interface SendCommand {
  readonly phone: string;
  readonly channel: string;
  readonly locale: string;
  readonly purpose: string;
  readonly bind: Readonly<Record<string, string>>;
  readonly knownUser: boolean;
  /** What the SMS ends with. One of the two at most. */
  readonly webOrigin: WebOrigin | undefined;
  readonly appHash: AndroidAppHash | undefined;
  /** What the bot check gave the browser; empty where it gave nothing. */
  readonly challengeToken: Secret;
}

export interface VerifyCommand {
  readonly id: string;
  readonly code: Secret;
  readonly purpose: string;
  readonly bind: Readonly<Record<string, string>>;
}

/** What send and resend tell: the verification as of `at`. */
export interface Sent {
  readonly id: string;
  readonly state: State;
  readonly delivery: Delivery;
  readonly digits: number;
  readonly expireMs: Instant;
  /** Null when no resend is left. */
  readonly nextResendMs: Instant | null;
  readonly resendsRemaining: number;
  readonly at: Instant;
}

export interface Verified {
  readonly id: string;
  readonly phone: E164;
  readonly verifyMs: Instant;
  /** The proof to hand on: a JWT. */
  readonly receipt: string;
}

export interface Canceled {
  readonly id: string;
  readonly cancelMs: Instant;
}

/** What get tells. */
export interface Seen extends Sent {
  readonly phone: E164;
  readonly reason: Reason | undefined;
  readonly purpose: string;
  readonly createMs: Instant;
  readonly endMs: Instant | null;
  readonly attemptsRemaining: number;
  /** Which provider has the latest message or answered last, and its word on why it did not go through. */
  readonly provider: string;
  readonly deliveryDetail: string;
}

/** A result, and whether it was first given to an earlier call with the same Idempotency-Key. */
export interface Answer<T> {
  readonly result: Result<T>;
  readonly replayed: boolean;
}

export interface Verifications {
  send(caller: Caller, command: SendCommand): Promise<Answer<Sent>>;
  verify(caller: Caller, command: VerifyCommand): Promise<Answer<Verified>>;
  resend(caller: Caller, id: string): Promise<Answer<Sent>>;
  cancel(caller: Caller, id: string): Promise<Answer<Canceled>>;
  get(caller: Caller, id: string): Promise<Answer<Seen>>;
}

export interface VerificationsOptions extends Pick<HandOverOptions, "deliver" | "sendWaitMs"> {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  /** Who vouches in receipts: their `iss`. */
  readonly issuer: string;
  /** Asks about what browsers bring, if the operator has set that up. */
  readonly botCheck?: BotCheck | undefined;
  /** Told once a tenant and day that a share of its daily cap is reached. */
  readonly onDailyShare: (tenant: string, share: Share) => void;
  /** Told what a verify came to, for metrics; also of one that only repeats an earlier answer. */
  readonly onCheck?: ((decided: VerifyResult, tenant: string) => void) | undefined;
}

export function createVerifications(options: VerificationsOptions): Verifications {
  const { store, system, keys, tenantOf, issuer, onDailyShare } = options;
  const botGate = createBotGate(store, options.botCheck);
  const phoneOf = phoneRefs(keys, tenantOf);
  const policyOf = (tenant: string) => tenantOf(tenant).policy;
  const handOver = createHandOver({ ...options, policyOf });

  /** The door: channel, then the phone's form. What passes has everything that takes randomness or a key. */
  function admit(caller: Caller, command: SendCommand): Result<SendFacts> {
    const { templates, origins } = tenantOf(caller.tenant);
    if (command.webOrigin !== undefined && origins?.has(command.webOrigin) === false) {
      return refuse("ORIGIN_NOT_ALLOWED", { field: "web_origin", message: "web_origin is not one of this tenant's." });
    }
    if (channelOf(command) !== "sms") return refuse("CHANNEL_UNSUPPORTED", { field: "channel" });
    const phone = admitNumber(caller.tenant, parsePhoneNumber(command.phone));
    if (!phone.ok) return phone;
    const id = Buffer.from(system.randomBytes(16)).toString("base64url");
    return ok({
      id,
      tenant: caller.tenant,
      keyId: caller.keyId,
      kid: keys.current.kid,
      salt: system.randomBytes(saltBytes),
      phone: phone.value,
      phoneIndex: phoneIndex(keys.current, caller.tenant, phone.value.e164),
      phoneBox: sealPhone(keys.current, id, phone.value.e164),
      locale: templates.localeFor(command.locale, phone.value.region),
      purpose: command.purpose,
      bind: canonicalBind(command.bind),
      webOrigin: command.webOrigin,
      appHash: command.appHash,
      knownUser: command.knownUser,
    });
  }

  /** A new verification's phone under every master key, the current one first. */
  function indexesOf({ tenant, phone, phoneIndex: current }: SendFacts): readonly Uint8Array[] {
    return keys.all.map((key) => (key === keys.current ? current : phoneIndex(key, tenant, phone.e164)));
  }

  function claimOf(caller: Caller, rpc: MutatingRpc, fields: readonly string[]): IdempotencyClaim | undefined {
    const { tenant, keyId, idempotencyKey: key } = caller;
    return key === undefined ? undefined : idempotencyClaim(keys, { tenant, keyId, rpc, key }, fields);
  }

  function scopeOf(caller: Caller, id: string, claim: IdempotencyClaim | undefined): UpdateScope {
    return { tenant: caller.tenant, id, slot: claim?.slot, phoneOf };
  }

  function warn(tenant: string, { share }: { readonly share?: Share | undefined }): void {
    if (share !== undefined) onDailyShare(tenant, share);
  }

  function numberOf({ tenant, kid, id, phoneBox }: Verification): string | undefined {
    return listedNumber(tenant, openPhone(keys, kid, id, phoneBox));
  }

  return {
    async send(caller, command) {
      const facts = admit(caller, command);
      const claim = claimOf(caller, "SendOtp", [
        command.phone,
        channelOf(command),
        command.locale,
        command.purpose,
        canonicalBind(command.bind),
        String(command.knownUser),
        command.webOrigin ?? "",
        command.appHash ?? "",
      ]);
      const { place = unlimited } = caller;
      if (!facts.ok && claim === undefined) {
        place.giveBack();
        return answer(facts);
      }
      // Once for the whole send: the buckets that are loaded are those of the limits that are spent.
      const { policy, hasWebhooks } = tenantOf(caller.tenant);
      const phone = facts.ok
        ? {
            indexes: indexesOf(facts.value),
            kid: keys.current.kid,
            knownUser: command.knownUser,
            buckets: bucketsOf(caller.tenant, policy),
            hasWebhooks,
            prefix: isGuarded(command.knownUser)
              ? prefixRef(policy, caller.tenant, () => facts.value.phone.e164)
              : undefined,
          }
        : undefined;
      const { tenant, isPublishable, address } = caller;
      const about = { tenant, isPublishable, address, facts, claim, policy };
      const visitor = { ...about, brought: command.challengeToken, limited: place.refusal };
      const scope = {
        tenant,
        slot: claim?.slot,
        phone,
        number: facts.ok ? listedNumber(tenant, facts.value.phone.e164) : undefined,
        isCapped: facts.ok && dailyMaxOf(tenant, policy) !== undefined,
      };
      const deciding = botGate(visitor, () =>
        store.openVerification(scope, (view) => decideSend(view, facts, claim, policy, place.refusal)),
      );
      const decided = await keptIfSpent(place, deciding);
      if (decided.kind === "replay") return replaySent(decided);
      warn(caller.tenant, decided);
      if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
      const isAskedAnew = options.botCheck !== undefined && isPublishable && claim === undefined;
      return answer(await handOver(decided, claim, isAskedAnew));
    },

    async verify(caller, command) {
      const bind = canonicalBind(command.bind);
      const claim = claimOf(caller, "VerifyOtp", [command.id, command.code.reveal(), command.purpose, bind]);
      const policy = policyOf(caller.tenant);
      const decided = await store.updateVerification(scopeOf(caller, command.id, claim), (view) =>
        decideVerify(view, { code: command.code, purpose: command.purpose, bind }, claim, keys, policy),
      );
      options.onCheck?.(decided, caller.tenant);
      if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
      const { verification: v } = decided;
      const stored = storedRefusal(decided);
      if (stored !== undefined) return replay({ ok: false, refusal: stored });
      const phone = openPhone(keys, v.kid, v.id, v.phoneBox);
      // A repeat gets the first answer's receipt, though another master key may be current by now.
      const signer = (decided.kind === "replay" ? keys.find(decided.kid) : undefined) ?? keys.current;
      const { audience } = tenantOf(realTenantOf(v.tenant));
      const receipt = receiptOf(signer, v, phone, { issuer, audience });
      const verified = { id: v.id, phone, verifyMs: v.endMs ?? v.createMs, receipt };
      return { result: ok(verified), replayed: decided.kind === "replay" };
    },

    async resend(caller, id) {
      const claim = claimOf(caller, "ResendOtp", [id]);
      const { place = unlimited } = caller;
      const policy = policyOf(caller.tenant);
      const isCapped = dailyMaxOf(caller.tenant, policy) !== undefined;
      const scope = { ...scopeOf(caller, id, claim), withPrefix: true, numberOf, isCapped };
      const decided = await keptIfSpent(
        place,
        store.updateVerification(scope, (view) => decideResend(view, claim, policy, place.refusal)),
      );
      if (decided.kind === "replay") return replaySent(decided);
      warn(caller.tenant, decided);
      if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
      return answer(await handOver(decided, claim));
    },

    async cancel(caller, id) {
      const claim = claimOf(caller, "CancelOtp", [id]);
      const decided = await store.updateVerification(scopeOf(caller, id, claim), (view) => decideCancel(view, claim));
      if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
      const { verification } = decided;
      const canceled = { id: verification.id, cancelMs: verification.endMs ?? verification.createMs };
      return { result: ok(canceled), replayed: decided.kind === "replay" };
    },

    async get(caller, id) {
      const v = await store.readVerification(caller.tenant, id);
      if (v === undefined) return answer(refuse("REQUEST_NOT_FOUND"));
      const now = store.now();
      const state = stateAt(v, now);
      const latest = (await store.readMessages(v.id)).at(-1);
      return answer(
        ok({
          ...sentAt(v, policyOf(v.tenant), now),
          phone: openPhone(keys, v.kid, v.id, v.phoneBox),
          reason: state === "PENDING" ? undefined : terminalReason(state),
          purpose: v.purpose,
          createMs: v.createMs,
          endMs: v.endMs ?? (state === "EXPIRED" ? v.expireMs : null),
          attemptsRemaining: state === "PENDING" ? v.attemptsMax - v.attempts : 0,
          provider: latest?.provider ?? "",
          deliveryDetail: latest?.detail ?? "",
        }),
      );
    },
  };

  function replaySent(replayed: Replay): Answer<Sent> {
    const refusal = storedRefusal(replayed);
    if (refusal !== undefined) return replay({ ok: false, refusal });
    const { verification, answer: first } = replayed;
    // The first call crashed before it could note its answer: the verification as it stands now is the answer.
    if (first?.sent === undefined) return replay(ok(sentAt(verification, policyOf(verification.tenant), store.now())));
    const { id, digits, expireMs } = verification;
    return replay(ok({ id, digits, expireMs, at: first.at, ...first.sent }));
  }
}

/** The channel that was asked for, in one spelling. */
function channelOf({ channel }: SendCommand): string {
  return channel.toLowerCase() || "sms";
}

function answer<T>(result: Result<T>): Answer<T> {
  return { result, replayed: false };
}

function replay<T>(result: Result<T>): Answer<T> {
  return { result, replayed: true };
}

function storedRefusal(decided: { readonly kind: string; readonly answer?: StoredAnswer | null }): Refusal | undefined {
  return decided.kind === "replay" ? decided.answer?.refusal : undefined;
}
