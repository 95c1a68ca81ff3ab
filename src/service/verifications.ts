/**
 * The acts of the service: send, verify, resend, cancel, get, a file each. An act draws and derives what takes randomness or
 * a key, runs one decision in the store, and makes an answer of its result. The rules are in otp/decisions/, the store makes acts
 * atomic; here is the order of events.
 */
import type { ActTools } from "./act.ts";
import type { BotCheck } from "./callers/bot-check.ts";
import { createBotGate } from "./callers/bot-gate.ts";
import type {
  Answer,
  Caller,
  Canceled,
  ResendCommand,
  Seen,
  SendCommand,
  Sent,
  Verified,
  VerifyCommand,
} from "./calls.ts";
import { cancel } from "./cancel.ts";
import { get } from "./get.ts";
import { createHandOver, type HandOverOptions } from "./hand-over.ts";
import { phoneRefs } from "./phone-refs.ts";
import { resend } from "./resend.ts";
import { send, type SendTools } from "./send.ts";
import { verify, type VerifyTools } from "./verify.ts";

export interface Verifications {
  send(caller: Caller, command: SendCommand): Promise<Answer<Sent>>;
  verify(caller: Caller, command: VerifyCommand): Promise<Answer<Verified>>;
  resend(caller: Caller, command: ResendCommand): Promise<Answer<Sent>>;
  cancel(caller: Caller, id: string): Promise<Answer<Canceled>>;
  get(caller: Caller, id: string): Promise<Answer<Seen>>;
}

export interface VerificationsOptions
  extends
    Omit<ActTools, "phoneOf" | "handOver">,
    Pick<SendTools, "onLimited" | "fallbackOrder">,
    Pick<VerifyTools, "issuer" | "onVerify">,
    Pick<HandOverOptions, "deliver" | "sendWaitMs" | "onOwed"> {
  /** Checks the tokens of browsers, if the operator has set that up. */
  readonly botCheck?: BotCheck | undefined;
}

export function createVerifications(options: VerificationsOptions): Verifications {
  const { store, keys, tenantOf, botCheck } = options;
  const tools = {
    ...options,
    phoneOf: phoneRefs(keys, tenantOf),
    handOver: createHandOver(options),
    botGate: botCheck && createBotGate(store, botCheck),
  };
  return {
    send: send.bind(undefined, tools),
    verify: verify.bind(undefined, tools),
    resend: resend.bind(undefined, tools),
    cancel: cancel.bind(undefined, tools),
    get: get.bind(undefined, tools),
  };
}
