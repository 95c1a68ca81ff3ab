/**
 * The webhook provider posts the text to a URL of the operator's, signed as Standard Webhooks prescribes. Whatever
 * stands there sends it: ten lines in front of Twilio, Vonage, SNS or a modem (docs/providers.md). `webhook-id` is the
 * same for every try of one message, so that the receiver recognises a repeat.
 *
 * 2xx takes the message. 409 says "taken before". 400 and 422 refuse it (with `{"reason":"recipient"}`, the recipient);
 * 401 and 403 refuse us; 402 means no balance; 429 asks to wait; 404, 405, 410 and redirects mean a wrong URL.
 */
import type { SendOutcome } from "../../otp/message/message.ts";
import { localHosts } from "../../otp/keys/origin.ts";
import type { Finding, Provider } from "../provider.ts";
import { describeProvider } from "./description.ts";
import type { Answer } from "./http/answer.ts";
import { createCall } from "./http/call.ts";
import { outcomeOfAnswer, outcomeWithoutAnswer, waitAskedMs } from "./outcome.ts";
import { httpUrl, webhookSecret } from "./shapes.ts";
import { signatureHeaders } from "../signature.ts";

export const webhookProvider = describeProvider({
  name: "webhook",
  variables: {
    OTP_WEBHOOK_URL: {
      shape: httpUrl("must be an https URL (http only for this machine)"),
      sentence: "required by `webhook`: your own URL that sends what is posted to it",
      isRequired: true,
    },
    OTP_WEBHOOK_SECRET: {
      shape: webhookSecret,
      sentence: "required by `webhook`: `whsec_` and 24–64 bytes in base64; signs each post",
      isSecret: true,
      isRequired: true,
    },
  },
  create: ({ OTP_WEBHOOK_URL: url, OTP_WEBHOOK_SECRET: secret }, { now }) =>
    createWebhookProvider({ url, secret: Buffer.from(secret.slice("whsec_".length), "base64"), now }),
});

export interface WebhookOptions {
  readonly url: URL;
  /** 24 to 64 bytes. */
  readonly secret: Uint8Array;
  /** A clock in milliseconds. */
  readonly now: () => number;
}

export function createWebhookProvider({ url, secret, now }: WebhookOptions): Provider {
  const call = createCall(url.href);
  const asked = { "content-type": "application/json", accept: "application/json", "user-agent": "otpd" };
  return {
    name: "webhook",

    async send(sms, signal, onStatus) {
      const body = JSON.stringify({
        type: "sms.send",
        to: sms.to,
        country: sms.region,
        text: sms.text,
        validity_seconds: sms.validitySeconds,
        reference: sms.reference,
        // Left out of the JSON where the text has none.
        dlt_template_id: sms.dltTemplateId,
        dlt_entity_id: sms.dltEntityId,
      });
      const headers = { ...asked, ...signatureHeaders(sms.reference, body, [secret], now()) };
      const called = await call({ method: "POST", url, headers, body }, signal, (status) => {
        onStatus?.(status);
        return aboutMessage.includes(status);
      });
      return called.kind === "answered" ? outcomeOf(called.answer) : outcomeWithoutAnswer(called.wasConnected);
    },

    async examine(): Promise<Finding[]> {
      const isSafe = url.protocol === "https:" || localHosts.has(url.hostname);
      return [{ ok: isSafe, sentence: `The webhook URL is ${isSafe ? "" : "not "}protected by TLS or local.` }];
    },
  };
}

/** Refusals of the message, whose body may name the recipient as the reason. */
const aboutMessage = [400, 422];

function outcomeOf({ status, retryAfter, body }: Answer): SendOutcome {
  const { id, reason } = fieldsOf(body);
  if ((status >= 200 && status < 300) || status === 409) {
    return { kind: "accepted", ...(typeof id === "string" ? { providerMessageId: id } : {}) };
  }
  return outcomeOfAnswer({
    status,
    detail: `HTTP ${status}`,
    retryAfterMs: waitAskedMs(retryAfter),
    cause: reason === "recipient" ? "recipient" : "content",
    judgements: aboutMessage,
  });
}

/** The fields of an answer's JSON, as far as it is there. */
function fieldsOf(body = ""): { readonly id?: unknown; readonly reason?: unknown } {
  try {
    const fields = JSON.parse(body) as unknown;
    return typeof fields === "object" && fields !== null ? fields : {};
  } catch {
    return {};
  }
}
