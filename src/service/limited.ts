/**
 * For development: tells of sends that their phone's limit refused. Whoever tries his own number again and again meets that
 * limit first, and has to read how to go on.
 */
import { parsePhoneNumber, type E164 } from "../otp/phone-number.ts";
import { isSandbox } from "../otp/sandbox.ts";
import type { Verifications } from "./verifications.ts";

/** The same verifications; `tell` is called for each send that is PHONE_RATE_LIMITED. The sandbox's limit is made up. */
export function tellingLimited(
  verifications: Verifications,
  tell: (phone: E164, tenant: string) => void,
): Verifications {
  return {
    ...verifications,
    async send(caller, command) {
      const answer = await verifications.send(caller, command);
      const { result } = answer;
      if (!result.ok && result.refusal.reason === "PHONE_RATE_LIMITED" && !isSandbox(caller.tenant)) {
        const phone = parsePhoneNumber(command.phone);
        if (phone.ok) tell(phone.value.e164, caller.tenant);
      }
      return answer;
    },
  };
}
