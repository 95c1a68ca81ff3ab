/**
 * The acts of the service: send, verify, resend, cancel, get, a file each. An act draws and derives what takes randomness or
 * a key, runs one decision in the store, and makes an answer of its result. The rules are in otp/decisions.ts, the store
 * makes acts atomic; here is the order of events.
 */
import { parsePhoneNumber, type E164 } from "../otp/phone-number.ts";
import { isSandbox } from "../otp/sandbox.ts";
import type { ActTools } from "./act.ts";
import type { BotCheck } from "./bot-check.ts";
import { createBotGate } from "./bot-gate.ts";
import type { Answer, Caller, Canceled, Seen, SendCommand, Sent, Verified, VerifyCommand } from "./calls.ts";
import { cancel } from "./cancel.ts";
import { get } from "./get.ts";
import { createHandOver, type HandOverOptions } from "./hand-over.ts";
import { phoneRefs } from "./phone-refs.ts";
import { resend } from "./resend.ts";
import { send } from "./send.ts";
import { verify, type VerifyTools } from "./verify.ts";

export interface Verifications {
  send(caller: Caller, command: SendCommand): Promise<Answer<Sent>>;
  verify(caller: Caller, command: VerifyCommand): Promise<Answer<Verified>>;
  resend(caller: Caller, id: string): Promise<Answer<Sent>>;
  cancel(caller: Caller, id: string): Promise<Answer<Canceled>>;
  get(caller: Caller, id: string): Promise<Answer<Seen>>;
}

export interface VerificationsOptions
  extends
    Omit<ActTools, "phoneOf" | "handOver">,
    Pick<VerifyTools, "issuer" | "onVerify">,
    Pick<HandOverOptions, "deliver" | "sendWaitMs"> {
  /** Checks the tokens of browsers, if the operator has set that up. */
  readonly botCheck?: BotCheck | undefined;
}

export function createVerifications(options: VerificationsOptions): Verifications {
  const { store, keys, tenantOf, botCheck } = options;
  const tools = {
    ...options,
    phoneOf: phoneRefs(keys, tenantOf),
    handOver: createHandOver({ ...options, policyOf: (tenant) => tenantOf(tenant).policy }),
    botGate: createBotGate(store, botCheck),
    hasBotCheck: botCheck !== undefined,
  };
  return {
    send: (caller, command) => send(tools, caller, command),
    verify: (caller, command) => verify(tools, caller, command),
    resend: (caller, id) => resend(tools, caller, id),
    cancel: (caller, id) => cancel(tools, caller, id),
    get: (caller, id) => get(tools, caller, id),
  };
}

/**
 * The same verifications, for development: `tell` is called for each send that is PHONE_RATE_LIMITED. Whoever tries his own
 * number again and again meets that limit first, and has to read how to go on. The sandbox's limit is made up.
 */
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
