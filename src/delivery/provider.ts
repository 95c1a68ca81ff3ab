/**
 * The provider port: one way for an SMS to leave. A provider makes one call and says what it came to; it never retries,
 * never throws for a refusal, and keeps no state of its own. Retries, failover and deadlines belong to the worker.
 */
import type { SendOutcome } from "../otp/message.ts";
import type { E164 } from "../otp/phone-number.ts";

/** One SMS to hand over. */
export interface Sms {
  readonly to: E164;
  /** The text, code included: it may go to the provider and nowhere else. */
  readonly text: string;
  /** Seconds for which the text is of use; a provider that can should discard it afterwards. */
  readonly validitySeconds: number;
}

export interface Provider {
  /** Its name in configuration, logs and metrics, such as "console". */
  readonly name: string;
  /** Hands one SMS over. Gives up when the signal aborts; whatever it throws counts as an ambiguous outcome. */
  send(sms: Sms, signal: AbortSignal): Promise<SendOutcome>;
}
