/**
 * The acts of the service brought down to what a test of the store needs: the real rules on a store, without the doors
 * around them.
 */
import { noFallback, sameChannel } from "../support/data/examples.ts";
import { ofOneMind } from "../support/service/tenants.ts";
import type { Channel } from "../../src/otp/channel.ts";
import { deriveCode } from "../../src/otp/message/code.ts";
import type { FallbackPlan } from "../../src/otp/message/fallback.ts";
import type { IdempotencyClaim } from "../../src/otp/verification/idempotency.ts";
import { createKeyRing, type KeyRing } from "../../src/otp/keys/key-ring.ts";
import type { LimitKey, NamedLimits } from "../../src/otp/limits/named-limit.ts";
import { openPhone, phoneIndex, sealPhone, type E164 } from "../../src/otp/phone-number.ts";
import type { Policy } from "../../src/otp/verification/policy.ts";
import { prefixOf } from "../../src/otp/limits/pumping-guard.ts";
import { ok } from "../../src/otp/reason.ts";
import { capsOf, type PriceOf, type Refused } from "../../src/otp/decisions/spending.ts";
import { Secret } from "../../src/otp/keys/secret.ts";
import type { ChargeOf } from "../../src/otp/operators/statistics.ts";
import type { WebOrigin } from "../../src/otp/template/last-line.ts";
import { decideSend, type SendFacts } from "../../src/otp/decisions/sending.ts";
import { decideVerify } from "../../src/otp/decisions/verifying.ts";
import { decideCancel } from "../../src/otp/decisions/canceling.ts";
import { decideResend } from "../../src/otp/decisions/resending.ts";
import { decideGiveUp, type SettleView } from "../../src/otp/decisions/settlement.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import type { PhoneView } from "../../src/otp/decisions/writes.ts";
import { phoneRefs } from "../../src/service/phone-refs.ts";
import type { Job, PhoneOf, PhoneRef, Store } from "../../src/store/store.ts";
import type { System } from "../../src/system.ts";

export const testPolicy: Policy = {
  codeLength: 6,
  codeLengthMax: 8,
  guessPolicy: "lengthen",
  ttlMs: 600_000,
  attemptsMax: 5,
  resendGapsMs: [30_000, 60_000],
  fraudGuard: "observe",
  phoneLimits: [
    { burst: 1_000, intervalMs: 1_000 },
    { burst: 2_000, intervalMs: 60_000 },
  ],
  allowedCountries: undefined,
  dailyMessagesMax: undefined,
  retentionMs: 72 * 3_600_000,
};

/** What messages take in tests: by their provider, and nobody knows the price of one of them. */
export const testCharge: ChargeOf = ({ provider, channel, digits }) => ({
  segments: channel === "sms" ? 2 : 1,
  cost: provider === "one" ? { amount: 70_000 + digits, currency: "EUR" } : undefined,
});

/** A key ring of master keys that each consist of one byte, the current one first. */
export function ringOf(...bytes: number[]): KeyRing {
  return createKeyRing(bytes.map((byte) => new Uint8Array(32).fill(byte)));
}

export const ann = "+31612345678" as E164;
export const ben = "+31687654321" as E164;

/** The share of a cap that a message has reached, if it has. */
export const shareOf = ({ reached }: Pick<Job, "reached">) => reached?.[0]?.share;

export interface SendOptions {
  readonly tenant?: string;
  readonly knownUser?: boolean;
  readonly channel?: Channel;
  readonly fallback?: FallbackPlan;
  /** The country of the phone; the Netherlands unless given. */
  readonly region?: string;
  readonly claim?: IdempotencyClaim;
  /** The limits that the send names. */
  readonly limitKeys?: readonly LimitKey[];
}

export interface Acts {
  readonly keys: KeyRing;
  readonly policy: Policy;
  readonly phoneOf: PhoneOf;
  refOf(phone: E164, options?: SendOptions): PhoneRef;
  factsOf(phone: E164, options?: SendOptions): SendFacts;
  /** Opens a verification; throws when that is refused. The message is claimed, as by a worker of its own. */
  send(phone: E164, options?: SendOptions): Promise<Job>;
  /** What a send comes to: "opened", or the reason of its refusal. */
  trySend(phone: E164, options?: SendOptions): Promise<string>;
  /** The refusal of a send; throws when it is none. */
  refusedSend(phone: E164, options?: SendOptions): Promise<Refused>;
  /** What a guess comes to: "verified", or the reason of its refusal. */
  guess(verification: Verification, code: string): Promise<string>;
  resend(verification: Verification): Promise<Job>;
  /** What a resend comes to: "resent", or the reason of its refusal. */
  tryResend(verification: Verification): Promise<string>;
  cancel(verification: Verification): Promise<string>;
  /** Claims what is due, as a worker does. */
  claim(max?: number, from?: Store): Promise<Job[]>;
  /** The verification as it is stored. */
  read(verification: Verification): Promise<Verification>;
  /** What the store knows of a phone. Changes nothing. */
  phone(phone: E164, options?: SendOptions): Promise<PhoneView>;
  rightCode(verification: Verification): string;
  wrongCode(verification: Verification): string;
}

export function createActs(
  store: Store,
  system: System,
  keys = ringOf(1),
  policy = testPolicy,
  hasWebhooks = false,
  priceOf?: PriceOf,
  limits?: NamedLimits,
): Acts {
  const plain = ofOneMind(policy);
  const tenantOf = (id: string) => ({ ...plain(id), hasWebhooks, limits });
  const phoneOf = phoneRefs(keys, tenantOf);

  function refOf(phone: E164, { tenant = "default", knownUser = false }: SendOptions = {}): PhoneRef {
    const indexes = keys.all.map((key) => phoneIndex(key, tenant, phone));
    const prefix = { name: () => ({ tenant, prefix: prefixOf(phone) }), mode: policy.fraudGuard };
    return {
      indexes,
      kid: keys.current.kid,
      knownUser,
      buckets: policy.phoneLimits.length,
      prefix: knownUser ? undefined : prefix,
      hasWebhooks,
    };
  }

  function factsOf(
    phone: E164,
    { tenant = "default", knownUser = false, channel = "sms", region = "NL", fallback = noFallback }: SendOptions = {},
  ): SendFacts {
    const id = Buffer.from(system.randomBytes(16)).toString("base64url");
    return {
      id,
      tenant,
      keyId: "key",
      kid: keys.current.kid,
      // A Buffer, as databases give bytes back, so that a row equals what it was made from.
      salt: Buffer.from(system.randomBytes(16)),
      phone: { e164: phone, region, kind: "mobile" },
      phoneIndex: phoneIndex(keys.current, tenant, phone),
      phoneBox: sealPhone(keys.current, id, phone),
      locale: "en",
      channel,
      purpose: "login",
      bind: "",
      webOrigin: "https://shop.example" as WebOrigin,
      appHash: undefined,
      knownUser,
      fallback,
    };
  }

  function decide(phone: E164, options: SendOptions) {
    const facts = factsOf(phone, options);
    const { tenant } = facts;
    const { claim, limitKeys = [] } = options;
    const scope = {
      tenant,
      slot: claim?.slot,
      phone: { ...refOf(phone, options), limits: limitKeys },
      number: phone,
      caps: capsOf(tenant, { region: facts.phone.region, channel: facts.channel }, policy),
    };
    return store.openVerification(scope, (view) => decideSend(view, ok(facts), { claim, policy, limitKeys, priceOf }));
  }

  const scopeOf = ({ tenant, id }: Verification) => ({ tenant, id, slot: undefined, phoneOf });
  const resendScopeOf = (v: Verification) => ({
    ...scopeOf(v),
    withPrefix: true,
    numberOf: ({ kid, id, phoneBox }: Verification) => openPhone(keys, kid, id, phoneBox),
    capsOf: (found: Verification) => capsOf(found.tenant, found, policy),
  });

  function resend(verification: Verification) {
    return store.updateVerification(resendScopeOf(verification), (view) =>
      decideResend(view, sameChannel, { claim: undefined, policy, priceOf }),
    );
  }

  function rightCode(verification: Verification): string {
    const code = deriveCode(keys, verification);
    if (code === undefined) throw new Error("this verification has no code any more");
    return code.reveal();
  }

  return {
    keys,
    policy,
    phoneOf,
    refOf,
    factsOf,
    rightCode,
    async send(phone, options = {}) {
      const result = await decide(phone, options);
      if (result.kind !== "opened") throw new Error(`not opened: ${JSON.stringify(result)}`);
      return result;
    },
    async trySend(phone, options = {}) {
      const result = await decide(phone, options);
      return result.kind === "refused" ? result.refusal.reason : result.kind;
    },
    async refusedSend(phone, options = {}) {
      const result = await decide(phone, options);
      if (result.kind !== "refused") throw new Error(`not refused: ${result.kind}`);
      return result;
    },
    async guess(verification, code) {
      const facts = { code: new Secret(code), purpose: verification.purpose, bind: verification.bind };
      const result = await store.updateVerification(scopeOf(verification), (view) =>
        decideVerify(view, facts, { claim: undefined, keys, policy }),
      );
      return result.kind === "refused" ? result.refusal.reason : result.kind;
    },
    async resend(verification) {
      const result = await resend(verification);
      if (result.kind !== "resent") throw new Error(`not resent: ${JSON.stringify(result)}`);
      return result;
    },
    async tryResend(verification) {
      const result = await resend(verification);
      return result.kind === "refused" ? result.refusal.reason : result.kind;
    },
    async cancel(verification) {
      const result = await store.updateVerification(scopeOf(verification), (view) => decideCancel(view, undefined));
      return result.kind === "refused" ? result.refusal.reason : result.kind;
    },
    claim(max = 10, from = store) {
      const decideLate = (view: SettleView) => decideGiveUp(view, policy);
      return from.claimMessages(max, phoneOf, decideLate, (v, { channel }) => ({
        caps: capsOf(v.tenant, { region: v.region, channel }, policy),
        price: () => priceOf?.(v, channel),
      }));
    },
    async read({ tenant, id }) {
      const found = await store.readVerification(tenant, id);
      if (found === undefined) throw new Error("it is not there");
      return found;
    },
    async phone(phone, options = {}) {
      const scope = { tenant: options.tenant ?? "default", slot: undefined, phone: refOf(phone, options) };
      const view = await store.openVerification(scope, ({ phone: seen }) => ({
        writes: {},
        // A view is good within its act only.
        result: seen && { tats: seen.tats, history: seen.history, openAttempts: seen.openAttempts },
      }));
      if (view === undefined) throw new Error("the view has no phone");
      return view;
    },
    wrongCode(verification) {
      const last = Number(rightCode(verification).at(-1));
      return rightCode(verification).slice(0, -1) + String((last + 1) % 10);
    },
  };
}
