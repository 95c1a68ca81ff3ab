/**
 * The webhook provider posts the text to a URL of the operator's, signed as Standard Webhooks prescribes. Whatever
 * stands there sends it: ten lines in front of Twilio, Vonage, SNS or a modem (docs/providers.md). `webhook-id` is the
 * same for every try of one message, so that the receiver recognises a repeat.
 *
 * 2xx takes the message. 409 says "taken before". 400 and 422 refuse it (with `{"reason":"recipient"}`, the recipient);
 * 401 and 403 refuse us; 402 means no balance; 429 asks to wait; 404, 405, 410 and redirects mean a wrong URL.
 */
import { readJson } from "../../http-answer.ts";
import type { SendOutcome } from "../../otp/message/message.ts";
import { localHosts } from "../../otp/keys/origin.ts";
import type { Finding, Provider } from "../provider.ts";
import { describeProvider } from "./description.ts";
import { mayBeConnected, outcomeOfAnswer, outcomeWithoutAnswer, waitAskedMs } from "./outcome.ts";
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
  /** How requests are made; tests bring their own trust in a certificate. */
  readonly fetch?: typeof globalThis.fetch;
}

/** The longest answer read. */
const answerBytesMax = 16_384;
/** An id of a message that was taken is optional: it is waited for only so long. */
const nameWaitMs = 1_000;

export function createWebhookProvider(options: WebhookOptions): Provider {
  const { url, secret, now, fetch = globalThis.fetch } = options;
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
      const ending = new AbortController();
      try {
        const response = await fetch(url, {
          method: "POST",
          headers: { "content-type": "application/json", ...signatureHeaders(sms.reference, body, [secret], now()) },
          body,
          redirect: "manual",
          signal: AbortSignal.any([signal, ending.signal]),
        });
        const { status, headers } = response;
        onStatus?.(status);
        if (isTaken(status)) return taken(await nameOf(response, ending));
        return outcomeOf(status, headers.get("retry-after"), await answerOf(response));
      } catch (error) {
        return outcomeWithoutAnswer(mayBeConnected(error));
      }
    },

    async examine(): Promise<Finding[]> {
      const isSafe = url.protocol === "https:" || localHosts.has(url.hostname);
      return [{ ok: isSafe, sentence: `The webhook URL is ${isSafe ? "" : "not "}protected by TLS or local.` }];
    },
  };
}

interface Answer {
  readonly id?: unknown;
  readonly reason?: unknown;
}

/** The answer's JSON, as far as it is small and there. */
async function answerOf({ body }: Response): Promise<Answer> {
  const answer = await readJson(body, answerBytesMax);
  return typeof answer === "object" && answer !== null ? answer : {};
}

function isTaken(status: number): boolean {
  return (status >= 200 && status < 300) || status === 409;
}

function taken({ id }: Answer): SendOutcome {
  return { kind: "accepted", ...(typeof id === "string" ? { providerMessageId: id } : {}) };
}

/** The answer that takes the message, or an empty one where it breaks off or is slow. */
async function nameOf(response: Response, ending: AbortController): Promise<Answer> {
  const timer = setTimeout(() => ending.abort(), nameWaitMs);
  try {
    return await answerOf(response);
  } catch {
    return {};
  } finally {
    clearTimeout(timer);
  }
}

function outcomeOf(status: number, retryAfter: string | null, answer: Answer): SendOutcome {
  return outcomeOfAnswer({
    status,
    detail: `HTTP ${status}`,
    retryAfterMs: waitAskedMs(retryAfter),
    cause: answer.reason === "recipient" ? "recipient" : "content",
    judgements: [400, 422],
  });
}
