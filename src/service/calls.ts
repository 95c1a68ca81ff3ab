/**
 * What a caller brings to the acts of the service, and what it is answered.
 */
import type { Channel } from "../otp/channel.ts";
import type { Delivery, Message } from "../otp/message/message.ts";
import type { E164 } from "../otp/phone-number.ts";
import type { Reason, Result } from "../otp/reason.ts";
import type { Secret } from "../otp/keys/secret.ts";
import type { AndroidAppHash, WebOrigin } from "../otp/template/last-line.ts";
import type { State } from "../otp/state.ts";
import type { Instant } from "../system.ts";
import type { Permit } from "./callers/call-limits.ts";

/** Who is asking: an authenticated API key. */
export interface Caller {
  readonly tenant: string;
  readonly keyId: string;
  /** Names the call in logs; absent where it is nobody's. */
  readonly callId?: string;
  /** The call's Idempotency-Key, if it has one. */
  readonly idempotencyKey: string | undefined;
  /** True if the key is one that anybody may hold, such as a web page's. */
  readonly isPublishable: boolean;
  /** The channels that such a key names; undefined for any that is on. */
  readonly channels?: readonly Channel[] | undefined;
  /** The address that the call comes from, where it is known. */
  readonly address?: string | undefined;
  /** Its permit from the limit of the address it sends for; absent where there is no such limit. */
  readonly permit?: Permit;
}

/** How a send asks to go on, should its code not be verified. */
export interface FallbackAsked {
  /** Names of channels in one spelling (`channelName`), in their order; undefined for those of the operator's order. */
  readonly channels: readonly string[] | undefined;
  /** The wait before each, 15 000 to 120 000; undefined for the operator's. */
  readonly afterMs: number | undefined;
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
  /** Whose the tenant's named limits are, by their names. */
  readonly limitKeys?: Readonly<Record<string, string>>;
  /** The channels to go on to; absent for the operator's order. */
  readonly fallback?: FallbackAsked;
  /** The bot check's token from the browser; empty where there is none. */
  readonly challengeToken: Secret;
}

export interface VerifyCommand {
  readonly id: string;
  readonly code: Secret;
  readonly purpose: string;
  readonly bind: Readonly<Record<string, string>>;
}

export interface ResendCommand {
  readonly id: string;
  /** Empty for that which the send was for. */
  readonly channel: string;
}

/** What send and resend answer: the verification as of `at`. */
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

/** A message as get answers it. */
export type SeenMessage = Pick<Message, "channel" | "provider" | "delivery" | "detail">;

/** What get answers. */
export interface Seen extends Sent {
  readonly phone: E164;
  readonly reason: Reason | undefined;
  readonly channel: Channel;
  readonly purpose: string;
  readonly createMs: Instant;
  readonly endMs: Instant | null;
  readonly attemptsRemaining: number;
  /** In the order in which they were owed. */
  readonly messages: readonly SeenMessage[];
  /** The one that `delivery` is of. */
  readonly latest: SeenMessage | undefined;
}

/** A result, and whether it is that of an earlier call with the same Idempotency-Key. */
export interface Answer<T> {
  readonly result: Result<T>;
  readonly replayed: boolean;
}
