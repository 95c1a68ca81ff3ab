/**
 * What a call says once a key was pressed: the code, for as long as it is good. The provider that has the call asks for
 * it, by a request that it has signed.
 */
import type { Channel } from "../otp/channel.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import { readReference } from "../otp/message/provider-text.ts";
import type { TenantOf } from "../otp/operators/tenant.ts";
import { stateAt } from "../otp/verification/verification.ts";
import { nothing } from "../otp/decisions/writes.ts";
import type { PhoneOf, Store } from "../store/store.ts";
import { outgoingOf } from "./outgoing.ts";
import type { OutgoingMessage } from "./provider.ts";

export interface SpeakOptions {
  readonly store: Pick<Store, "settleMessage">;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  readonly phoneOf: PhoneOf;
}

/** A text is read at leisure, on a screen that may be locked: what was texted is not told again to whoever asks. */
const spoken: Channel = "voice";

/** Makes what finds the message of a reference, as it is to be spoken now; undefined where there is nothing to say. */
export function createSpeak({ store, keys, tenantOf, phoneOf }: SpeakOptions) {
  return async function speak(reference: string): Promise<OutgoingMessage | undefined> {
    for (const { id, copy } of readReference(keys, reference)) {
      const view = await store.settleMessage({ verificationId: id, copy }, phoneOf, nothing);
      if (view === undefined || view.message.channel !== spoken) continue;
      const { verification, now } = view;
      if (stateAt(verification, now) !== "PENDING") continue;
      const outgoing = outgoingOf(view, keys, tenantOf(verification.tenant), now);
      if (!("kind" in outgoing)) return outgoing;
    }
    return undefined;
  };
}
