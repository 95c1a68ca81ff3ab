/**
 * The provider port. A provider makes one call and returns its outcome. It never retries, never throws for a refusal, and
 * keeps no state. Retries, failover and deadlines are the worker's, the circuit breaker is in breaker.ts.
 */
import type { Channel } from "../otp/channel.ts";
import type { Report, SendOutcome } from "../otp/message/message.ts";
import type { E164 } from "../otp/phone-number.ts";

/**
 * Calls of a process at once: with a provider that takes 300 ms, 850 messages a second. A provider has as many connections, since
 * a call that waits for one may be given up unsent.
 */
export const callsAtOnceMax = 256;

/** A message to be sent. */
export interface OutgoingMessage {
  /** One of those that the provider was configured for. */
  readonly channel: Channel;
  readonly to: E164;
  /** The number's country, ISO 3166-1 alpha-2: some providers need another sender there. */
  readonly region: string;
  /** The text, or what a call says, code included: it may go to the provider and nowhere else. */
  readonly text: string;
  /** What a call says until a key is pressed. Only then comes `text`. */
  readonly prompt?: string;
  /** The code in the text, for gateways that are told it apart from its words. */
  readonly code: string;
  /** The language of the text, BCP 47; of a call with the country whose voice is to speak. */
  readonly locale: string;
  /** Seconds for which the text is of use; a provider that can should discard it afterwards. */
  readonly validitySeconds: number;
  /** True where the code has more digits than usual: many before it were not typed, or typed wrong. */
  readonly isLengthened?: true;
  /** Ours, the same for every try of one message; the provider's report brings it back. Visible ASCII, at most 40. */
  readonly reference: string;
  /** The ids that India's registers know the text and its sender by, for providers that pass them on. */
  readonly dltTemplateId?: string;
  readonly dltEntityId?: string;
}

/** What a call says, in the form that its provider reads. */
export interface Speech {
  /** Its media type. */
  readonly type: string;
  readonly body: string;
}

/** An HTTP request that may be a provider's report. */
export interface ReportRequest {
  readonly method: string;
  /** The path and query as they came. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Uint8Array;
}

/** Why a report is not taken for the provider's: it bears no signature, its time is not near, the signature is wrong, or none can be checked. */
export const forgedCauses = ["unsigned", "timestamp", "signature", "no public URL", "no secret"] as const;
export type ForgedCause = (typeof forgedCauses)[number];

/** The reports of a request, one or more, or why there are none: they are not the provider's, or about no message of ours. */
export type ReportReading =
  | { readonly kind: "genuine"; readonly reports: readonly Report[] }
  /** A call of this message has had a key pressed: `answer` makes what it says then. */
  | { readonly kind: "asked"; readonly reference: string; readonly answer: (message: OutgoingMessage) => Speech }
  /** The provider asks whether its reports have come to the right place, and wants to hear this again. */
  | { readonly kind: "greeted"; readonly challenge: string }
  | { readonly kind: "forged"; readonly cause: ForgedCause }
  | { readonly kind: "irrelevant" };

/** What a request to report came to. `unmatched`: it is genuine, and on no message of ours; `ignored`: it says nothing of one. */
export const reportOutcomes = ["matched", "unmatched", "ignored", "refused"] as const;
export type ReportOutcome = (typeof reportOutcomes)[number];

/**
 * Told of the HTTP status of a call's answer as soon as it has come, also where the rest of the answer never does. It is for the
 * log: what a status means is in the outcome.
 */
export type OnStatus = (status: number) => void;

export interface Provider {
  /** Its name in configuration, logs and metrics, such as "console". */
  readonly name: string;
  /** Sends one message. Gives up when the signal aborts; an error counts as an ambiguous outcome. */
  send(message: OutgoingMessage, signal: AbortSignal, onStatus?: OnStatus): Promise<SendOutcome>;
  /** True where its reports come to paths right below that of its name: a secret stands there. */
  readonly reportsBelow?: boolean;
  /** Checks and reads a report; absent where the provider sends none. Never throws. */
  readReport?(request: ReportRequest): Promise<ReportReading>;
  /** Proves the configuration against the provider: sentences for the operator, each true or false. */
  examine?(): Promise<readonly Finding[]>;
}

export function reportPath(provider: string): string {
  return `/webhooks/${provider}`;
}

/** One thing that was checked. */
export interface Finding {
  readonly ok: boolean;
  /** True for what is not as it should be, and keeps nothing from working. */
  readonly isWarning?: boolean;
  readonly sentence: string;
}
