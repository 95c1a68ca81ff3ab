/**
 * Bird, the successor of MessageBird's classic API, through `@messagebird/sdk`. Its own retries are off: the worker
 * counts every call. A message carries our reference as metadata, which Bird's webhooks bring back.
 */
import {
  BirdAPIError,
  BirdAuthError,
  BirdBillingError,
  BirdClient,
  BirdConflictError,
  BirdPermissionError,
  BirdRateLimitError,
  BirdValidationError,
} from "@messagebird/sdk";
import type { SendOutcome } from "../otp/message.ts";
import { neverConnected } from "./unsent.ts";
import type { Finding, Provider, ReportReading } from "./provider.ts";

export interface BirdOptions {
  /** `bk_<region>_…`; the region decides where calls go. */
  readonly apiKey: string;
  /** The sender: a number, or up to 11 letters and digits. */
  readonly originator: string;
  /** Senders of single countries, by ISO 3166-1 alpha-2. */
  readonly originators: ReadonlyMap<string, string>;
  /** `whsec_…`; without it no report is believed. */
  readonly webhookSecret: string | undefined;
  /** An origin to use instead of the region's. */
  readonly baseUrl: URL | undefined;
  /** How requests are made; tests bring their own trust in a certificate. */
  readonly fetch?: typeof globalThis.fetch;
}

/** Above the worker's own deadline, which is the one that counts. */
const timeoutMs = 10_000;

export function createBirdProvider(options: BirdOptions): Provider {
  const client = new BirdClient({
    apiKey: options.apiKey,
    maxRetries: 0,
    timeout: timeoutMs,
    ...(options.baseUrl === undefined ? {} : { baseUrl: options.baseUrl.origin }),
    ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
  });
  return {
    name: "bird",

    async send(sms, signal) {
      const request = client.sms.send(
        {
          from: options.originators.get(sms.region) ?? options.originator,
          to: sms.to,
          text: sms.text,
          category: "authentication",
          validity_period: sms.validitySeconds,
          metadata: { reference: sms.reference },
        },
        // The same for every try of one message: a repeat after a lost answer sends nothing twice.
        { signal, idempotencyKey: sms.reference },
      );
      try {
        const { id } = await request;
        return typeof id === "string" && id !== ""
          ? { kind: "accepted", providerMessageId: id }
          : { kind: "ambiguous", detail: "an answer without a message id" };
      } catch (error) {
        return outcomeOf(error);
      }
    },

    async readReport({ headers, body }) {
      if (options.webhookSecret === undefined) return { kind: "forged" };
      const named = Object.fromEntries(
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, String(headers[name] ?? "")]),
      );
      try {
        const event = client.webhooks.unwrap(Buffer.from(body).toString("utf8"), named, {
          secret: options.webhookSecret,
        });
        return readEvent(event);
      } catch {
        return { kind: "forged" };
      }
    },

    async examine(): Promise<Finding[]> {
      try {
        await client.sms.list({ limit: 1 });
        return [{ ok: true, sentence: "Bird accepts the API key." }];
      } catch (error) {
        if (error instanceof BirdAuthError || error instanceof BirdPermissionError) {
          return [{ ok: false, sentence: "Bird does not accept OTP_BIRD_API_KEY." }];
        }
        const why = error instanceof BirdAPIError ? `answers HTTP ${error.statusCode}` : "cannot be reached";
        return [{ ok: false, sentence: `Bird ${why}.` }];
      }
    },
  };
}

function outcomeOf(error: unknown): SendOutcome {
  if (error instanceof BirdAPIError) {
    // A code of theirs, never their sentence: it may quote the number or the text.
    const detail = `HTTP ${error.statusCode}${/^\w{1,40}$/.test(error.code) ? `: ${error.code}` : ""}`;
    if (error instanceof BirdRateLimitError) {
      return {
        kind: "throttled",
        detail,
        ...(error.retryAfter === undefined ? {} : { retryAfterMs: error.retryAfter * 1_000 }),
      };
    }
    if (error instanceof BirdAuthError || error instanceof BirdPermissionError) {
      return { kind: "refused", cause: "credentials", detail };
    }
    // The same key came before, perhaps with other minutes in its text: that message is on its way.
    if (error instanceof BirdConflictError) return { kind: "accepted" };
    if (error instanceof BirdBillingError) return { kind: "refused", cause: "balance", detail };
    if (error instanceof BirdValidationError) {
      const isRecipient = error.param === "to" || error.details.some(({ param }) => param === "to");
      return { kind: "refused", cause: isRecipient ? "recipient" : "content", detail };
    }
    if (error.statusCode >= 500) return { kind: "ambiguous", detail };
    return { kind: "refused", cause: "content", detail };
  }
  return neverConnected(error)
    ? { kind: "unavailable", detail: "no connection" }
    : { kind: "ambiguous", detail: "the connection ended without an answer" };
}

const deliveries: Record<string, "ACCEPTED" | "DELIVERED" | "UNDELIVERED"> = {
  "sms.accepted": "ACCEPTED",
  "sms.sent": "ACCEPTED",
  "sms.delivered": "DELIVERED",
  "sms.undelivered": "UNDELIVERED",
  "sms.failed": "UNDELIVERED",
  "sms.rejected": "UNDELIVERED",
  "sms.expired": "UNDELIVERED",
};

function readEvent(event: unknown): ReportReading {
  const { type, data, ...flat } = event as { type?: string; data?: Record<string, unknown> };
  const fields: Record<string, unknown> = data ?? flat;
  const delivery = deliveries[type ?? ""];
  const reference = (fields["metadata"] as { reference?: unknown } | null | undefined)?.reference;
  if (delivery === undefined || typeof reference !== "string") return { kind: "irrelevant" };
  const { code } = (fields["error"] ?? {}) as { code?: unknown };
  return {
    kind: "report",
    report: {
      reference,
      providerMessageId: typeof fields["sms_id"] === "string" ? fields["sms_id"] : undefined,
      delivery,
      detail: typeof code === "string" ? code : undefined,
    },
  };
}
