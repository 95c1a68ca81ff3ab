/**
 * The act of noting a provider's report: from its reference to the message, and on to the next provider when the message
 * is known not to have arrived.
 */
import type { KeyRing } from "../otp/key-ring.ts";
import type { Report } from "../otp/message.ts";
import { readReference } from "../otp/reference.ts";
import { decideReport, type ReportFacts } from "../otp/settlement.ts";
import type { PhoneOf, Store } from "../store/store.ts";

export interface ReportsOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  /** The names of a channel's providers, in their order. */
  readonly providersOf: ReportFacts["providersOf"];
  readonly phoneOf: PhoneOf;
  /** Told that a message is due at once. */
  readonly nudge: () => void;
}

/** Makes the function that notes a report. A report about a message nobody knows changes nothing. Safe to repeat. */
export function createNoteReport(options: ReportsOptions) {
  const { store, keys, providersOf, phoneOf, nudge } = options;
  return async function noteReport(provider: string, report: Report): Promise<void> {
    const { providerMessageId, delivery, detail } = report;
    const facts = { provider, providersOf, providerMessageId, delivery, detail };
    for (const { id, copy } of readReference(keys, report.reference)) {
      const noted = await store.settleMessage({ verificationId: id, copy }, phoneOf, (view) =>
        decideReport(view, facts),
      );
      if (noted?.message.delivery === "QUEUED") nudge();
    }
  };
}
