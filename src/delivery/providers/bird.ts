/**
 * Bird, the successor of MessageBird's classic API, through `@messagebird/sdk`. Its own retries are off: the worker
 * counts every call. A message carries our reference as metadata, which Bird's webhooks bring back.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { BirdAPIError } from "@messagebird/sdk";
import * as v from "valibot";
import { readAnswer } from "../../http-answer.ts";
import type { SendOutcome } from "../../otp/message/message.ts";
import { clockFindings } from "./clock-check.ts";
import type { Finding, OnStatus, OutgoingMessage, Provider, ReportReading } from "../provider.ts";
import { unreached } from "../unreached.ts";
import { describeProvider } from "./description.ts";
import { mayBeConnected, outcomeOfAnswer, outcomeWithoutAnswer } from "./outcome.ts";
import { httpsOrigin, originator, webhookSecret } from "./shapes.ts";

/** Bird's own template. It chooses its sender by itself. */
const ownTemplate = "bird_otp";

export const birdProvider = describeProvider({
  name: "bird",
  channels: ["sms", "whatsapp"],
  variables: {
    OTP_BIRD_API_KEY: {
      shape: v.pipe(
        v.string(),
        v.regex(/^bk_[a-z]{2}\d+_[^_]/, "must begin with bk_, a region and _, as bk_eu1_ does"),
      ),
      sentence: "required by `bird`",
      isSecret: true,
      isRequired: true,
    },
    OTP_BIRD_ORIGINATOR: { shape: originator, sentence: "required by `bird`", isRequired: true },
    OTP_BIRD_WHATSAPP_TEMPLATE: {
      shape: v.pipe(v.string(), v.regex(/^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$/, "must be a template's slug")),
      sentence: "authentication template that is sent by WhatsApp: Bird's own, or one of yours",
      default: ownTemplate,
    },
    OTP_BIRD_WHATSAPP_SENDER: {
      shape: v.pipe(v.string(), v.regex(/^\+[1-9]\d{6,14}$/, "must be a number in E.164, such as +31612345678")),
      sentence: "your WhatsApp number, for a template of yours; Bird's own has none",
    },
    OTP_BIRD_WEBHOOK_SECRET: { shape: webhookSecret, sentence: "checks its delivery reports", isSecret: true },
    OTP_BIRD_BASE_URL: {
      shape: httpsOrigin("must be an https origin without a path"),
      sentence: "https origin",
      otherwise: "that of the key's region",
    },
  },
  sender: "OTP_BIRD_ORIGINATOR",
  reportSecret: "OTP_BIRD_WEBHOOK_SECRET",
  create: (values, { originators, now }) =>
    createBirdProvider({
      apiKey: values.OTP_BIRD_API_KEY,
      originator: values.OTP_BIRD_ORIGINATOR,
      template: values.OTP_BIRD_WHATSAPP_TEMPLATE,
      whatsappSender: values.OTP_BIRD_WHATSAPP_SENDER,
      webhookSecret: values.OTP_BIRD_WEBHOOK_SECRET,
      baseUrl: values.OTP_BIRD_BASE_URL,
      originators,
      now,
    }),
});

export interface BirdOptions {
  /** `bk_<region>_…`; the region decides where calls go. */
  readonly apiKey: string;
  /** The sender: a number, or up to 11 letters and digits. */
  readonly originator: string;
  /** Senders of single countries, by ISO 3166-1 alpha-2. */
  readonly originators: ReadonlyMap<string, string>;
  /** The slug of the template that is sent by WhatsApp, and the number it is sent from; Bird's own has none. */
  readonly template: string;
  readonly whatsappSender: string | undefined;
  /** `whsec_…`; without it every report counts as forged. */
  readonly webhookSecret: string | undefined;
  /** An origin to use instead of the region's. */
  readonly baseUrl: URL | undefined;
  /** A clock in milliseconds. */
  readonly now: () => number;
  /** How requests are made; tests bring their own trust in a certificate. */
  readonly fetch?: typeof globalThis.fetch;
}

/** Later than the worker's deadline, which is the one that counts. */
const timeoutMs = 10_000;
/** How far a report's own time may be from ours for the SDK, either way. */
const windowSeconds = 300;
/** In characters: while a secret is rotated there are two. */
const signaturesMax = 1_024;

type Sdk = typeof import("@messagebird/sdk");

export function createBirdProvider(options: BirdOptions): Provider {
  const opened = openClient(options);
  return {
    name: "bird",
    async send(sms, signal, onStatus) {
      const { sdk, client } = await opened;
      const record: CallRecord = { onStatus };
      try {
        // The same for every try of one message: a repeat after a lost answer sends nothing twice.
        const once = { signal, idempotencyKey: sms.reference };
        const { id } = await recorded<{ readonly id?: unknown }>(record, async () =>
          sms.channel === "whatsapp"
            ? client.whatsapp.send(templateOf(options, sms), once)
            : client.sms.send(textOf(options, sms), once),
        );
        return typeof id === "string" && id !== ""
          ? { kind: "accepted", providerMessageId: id }
          : { kind: "ambiguous", detail: "an answer without a message id" };
      } catch (error) {
        if (error instanceof sdk.BirdAPIError) return outcomeOf(sdk, error);
        return outcomeWithoutAnswer(mayBeConnected(record.failure));
      }
    },

    async readReport({ headers, body }) {
      if (options.webhookSecret === undefined) return { kind: "forged", cause: "no secret" };
      const { "webhook-signature": signature, "webhook-timestamp": timestamp } = headers;
      if (signature === undefined) return { kind: "forged", cause: "unsigned" };
      // The package compares one after the other: 2,800 of somebody's took 6 ms.
      if (String(signature).length > signaturesMax) return { kind: "forged", cause: "signature" };
      const { client } = await opened;
      const named = Object.fromEntries(
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, String(headers[name] ?? "")]),
      );
      try {
        const event = client.webhooks.unwrap(Buffer.from(body).toString("utf8"), named, {
          secret: options.webhookSecret,
        });
        return readEvent(event);
      } catch {
        return { kind: "forged", cause: isNear(timestamp, options.now()) ? "signature" : "timestamp" };
      }
    },

    async examine(): Promise<Finding[]> {
      const { sdk, client } = await opened;
      const record: CallRecord = {};
      const finding = await recorded(record, async () => {
        try {
          await client.sms.list({ limit: 1 });
          return { ok: true, sentence: "Bird accepts the API key." };
        } catch (error) {
          if (!(error instanceof sdk.BirdAPIError)) return { ok: false, sentence: unreached("Bird", record.failure) };
          const isRefused = error.statusCode === 401 || error.statusCode === 403;
          return {
            ok: false,
            sentence: isRefused
              ? "Bird does not accept OTP_BIRD_API_KEY."
              : `Bird answers HTTP ${error.statusCode} when asked for messages.`,
          };
        }
      });
      return [finding, ...clockFindings("Bird", record.date, options.now())];
    },
  };
}

/** Without `validity_period`: Bird has announced it, and refuses every message that names it. */
function textOf({ originators, originator: sender }: BirdOptions, sms: OutgoingMessage) {
  const { to, text, reference, region } = sms;
  const from = originators.get(region) ?? sender;
  return { from, to, text, category: "authentication" as const, metadata: { reference } };
}

/** A template says what the code is put into: the text, and in one of the operator's own the button that copies it. */
function templateOf({ template: slug, whatsappSender: from }: BirdOptions, message: OutgoingMessage) {
  const { to, code, locale: language, reference } = message;
  const parameters = [{ type: "text" as const, text: code }];
  const components = (from === undefined ? ["body"] : ["body", "button"]).map((type) => ({ type, parameters }));
  const template = { slug, language, components };
  return { ...(from === undefined ? {} : { from }), to, template, metadata: { reference } };
}

/** The SDK takes some megabytes: it is loaded where it is configured. */
async function openClient(options: BirdOptions) {
  const sdk = await import("@messagebird/sdk");
  const client = new sdk.BirdClient({
    apiKey: options.apiKey,
    maxRetries: 0,
    timeout: timeoutMs,
    ...(options.baseUrl === undefined ? {} : { baseUrl: options.baseUrl.origin }),
    fetch: recordingFetch(options.fetch ?? globalThis.fetch),
  });
  return { sdk, client };
}

/** Only by the status: the SDK picks its error classes by the answer's own `type`, which may be any proxy's. */
function outcomeOf({ BirdRateLimitError, BirdValidationError }: Sdk, error: BirdAPIError): SendOutcome {
  const status = error.statusCode;
  // A code of theirs, never their sentence: it may quote the number or the text.
  const detail = `HTTP ${status}${/^\w{1,40}$/.test(error.code) && error.code !== "unknown" ? `: ${error.code}` : ""}`;
  // The same key came before, perhaps with other minutes in its text: that message is on its way.
  if (status === 409) return { kind: "accepted" };
  const seconds = error instanceof BirdRateLimitError ? error.retryAfter : undefined;
  const cause = isAboutRecipient(error, error instanceof BirdValidationError ? error.details : [])
    ? "recipient"
    : "content";
  return outcomeOfAnswer({ status, detail, cause, retryAfterMs: seconds === undefined ? undefined : seconds * 1_000 });
}

function isAboutRecipient(error: BirdAPIError, details: unknown): boolean {
  const params = Array.isArray(details) ? details.map((each) => (each as { param?: unknown } | null)?.param) : [];
  return error.statusCode === 422 && [error.param, ...params].includes("to");
}

/** Whether a report's time is one that the SDK takes. It does not tell why it takes none. */
function isNear(timestamp: string | string[] | undefined, now: number): boolean {
  const seconds = Number.parseInt(String(timestamp), 10);
  return Math.abs(now / 1_000 - seconds) <= windowSeconds;
}

const deliveries = new Map<string, "ACCEPTED" | "DELIVERED" | "UNDELIVERED">([
  ["sms.accepted", "ACCEPTED"],
  ["sms.sent", "ACCEPTED"],
  ["sms.delivered", "DELIVERED"],
  ["sms.undelivered", "UNDELIVERED"],
  ["sms.failed", "UNDELIVERED"],
  ["sms.rejected", "UNDELIVERED"],
  ["sms.expired", "UNDELIVERED"],
  ["whatsapp.accepted", "ACCEPTED"],
  ["whatsapp.sent", "ACCEPTED"],
  ["whatsapp.delivered", "DELIVERED"],
  ["whatsapp.read", "DELIVERED"],
  ["whatsapp.failed", "UNDELIVERED"],
  ["whatsapp.rejected", "UNDELIVERED"],
]);

function readEvent(event: unknown): ReportReading {
  const { type, data, ...flat } = event as { type?: string; data?: Record<string, unknown> };
  const fields: Record<string, unknown> = data ?? flat;
  const delivery = deliveries.get(type ?? "");
  const reference = (fields["metadata"] as { reference?: unknown } | null | undefined)?.reference;
  if (delivery === undefined || typeof reference !== "string") return { kind: "irrelevant" };
  const { code } = (fields["error"] ?? {}) as { code?: unknown };
  return {
    kind: "genuine",
    reports: [
      {
        reference,
        providerMessageId: [fields["sms_id"], fields["whatsapp_id"]].find((id) => typeof id === "string"),
        delivery,
        detail: typeof code === "string" ? code : undefined,
      },
    ],
  };
}

/** What the fetch of the SDK records of one call. */
interface CallRecord {
  /** The error of fetch, where there was no answer. */
  failure?: unknown;
  readonly onStatus?: OnStatus | undefined;
  /** The answer's Date header. */
  date?: string | undefined;
}

/** The largest answer read; the API's own are under 4 KiB. */
const answerBytesMax = 65_536;

const calls = new AsyncLocalStorage<CallRecord>();

/** Runs a call of the SDK, and fills in its record. */
function recorded<T>(record: CallRecord, call: () => Promise<T>): Promise<T> {
  return calls.run(record, call);
}

/**
 * Makes the fetch that the SDK is given. The SDK follows redirects, reads answers of any size, and drops the reason why there
 * was no connection. This one stops at redirects, refuses answers that are too large, and records what happened.
 */
function recordingFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const record = calls.getStore() ?? {};
    try {
      const response = await fetch(input, { ...init, redirect: "manual" });
      record.date = response.headers.get("date") ?? undefined;
      const { status, headers } = response;
      record.onStatus?.(status);
      return new Response(response.body === null ? null : await bodyOf(response.body), { status, headers });
    } catch (error) {
      record.failure = error;
      throw error;
    }
  };
}

async function bodyOf(body: ReadableStream<Uint8Array>): Promise<Buffer<ArrayBuffer>> {
  const read = await readAnswer(body, answerBytesMax);
  if (read === undefined) throw new Error("the answer is too large");
  return read;
}
