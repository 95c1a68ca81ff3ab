/**
 * Settles a message by a provider's report: finds it by the report's reference, and calls the next provider when it is
 * known not to have arrived.
 */
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { Report } from "../otp/message/message.ts";
import { readReference } from "../otp/message/provider-text.ts";
import { decideReport, type ReportFacts } from "../otp/decisions/settlement.ts";
import type { PhoneOf, Store } from "../store/store.ts";

export interface ReportsOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  /** The names of a channel's providers, in their order. */
  readonly providersOf: ReportFacts["providersOf"];
  readonly phoneOf: PhoneOf;
  /** Called when a message is due at once. */
  readonly nudge: () => void;
}

/**
 * Makes the function that takes a report, and tells whether it is on a message of ours. One on an unknown message changes
 * nothing. Safe to repeat.
 */
export function createTakeReport(options: ReportsOptions) {
  const { store, keys, providersOf, phoneOf, nudge } = options;
  return async function takeReport(provider: string, report: Report): Promise<boolean> {
    let isKnown = false;
    const { providerMessageId, delivery, detail } = report;
    const facts = { provider, providersOf, providerMessageId, delivery, detail };
    for (const { id, copy } of readReference(keys, report.reference)) {
      const settled = await store.settleMessage({ verificationId: id, copy }, phoneOf, (view) =>
        decideReport(view, facts),
      );
      isKnown ||= settled !== undefined;
      const isNextOwed = (settled?.verification.fallback?.dueMs ?? null) !== null;
      if (settled?.message.delivery === "QUEUED" || isNextOwed) nudge();
    }
    return isKnown;
  };
}
