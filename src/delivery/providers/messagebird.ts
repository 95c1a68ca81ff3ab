/**
 * MessageBird, through the `messagebird` package. The package takes every JSON answer without `errors` for a success,
 * even an HTTP 500 or 429. So a success here takes the status on the wire, a message id and a recipient count. The
 * package has no deadline (a slow answer resets its timeout), so the worker's signal ends the request.
 */
import { unreached } from "../unreached.ts";
import { createHash, createSecretKey, type KeyObject } from "node:crypto";
import type { MessageBird } from "messagebird";
import type { languages as VoiceLanguage } from "messagebird/types/voice_messages.d.ts";
import * as v from "valibot";
import type { SendOutcome } from "../../otp/message/message.ts";
import { clockFindings } from "./clock-check.ts";
import { routeMessageBird, recorded, type CallRecord } from "./messagebird-agent.ts";
import { describeProvider } from "./description.ts";
import { outcomeOfAnswer, outcomeWithoutAnswer, waitAskedMs } from "./outcome.ts";
import { httpsOrigin, originator } from "./shapes.ts";
import {
  reportPath,
  type Finding,
  type ForgedCause,
  type OnStatus,
  type Provider,
  type ReportReading,
  type ReportRequest,
  type OutgoingMessage,
} from "../provider.ts";

export const messagebirdProvider = describeProvider({
  name: "messagebird",
  channels: ["sms", "voice"],
  // It can hang up when a machine answers, and cannot wait for a key.
  speaksUnasked: true,
  variables: {
    OTP_MESSAGEBIRD_ACCESS_KEY: {
      shape: v.pipe(
        v.string(),
        v.check(
          (key) => !key.startsWith("bk_"),
          "is a key of the new Bird platform: set OTP_PROVIDERS=bird and OTP_BIRD_API_KEY instead",
        ),
      ),
      sentence: "required by `messagebird`",
      isSecret: true,
      isRequired: true,
    },
    OTP_MESSAGEBIRD_ORIGINATOR: {
      shape: originator,
      sentence: "required by `messagebird`: a number, or up to 11 letters and digits",
      isRequired: true,
    },
    OTP_MESSAGEBIRD_SIGNING_KEY: {
      shape: v.string(),
      sentence: "checks its delivery reports",
      isSecret: true,
    },
    OTP_MESSAGEBIRD_BASE_URL: {
      shape: httpsOrigin("must be an https origin without a path, such as https://sms-gateway.example.com"),
      sentence: "https origin",
      default: "https://rest.messagebird.com",
    },
  },
  sender: "OTP_MESSAGEBIRD_ORIGINATOR",
  reportSecret: "OTP_MESSAGEBIRD_SIGNING_KEY",
  create: (values, dependencies) =>
    createMessageBirdProvider({
      ...dependencies,
      accessKey: values.OTP_MESSAGEBIRD_ACCESS_KEY,
      originator: values.OTP_MESSAGEBIRD_ORIGINATOR,
      signingKey: values.OTP_MESSAGEBIRD_SIGNING_KEY,
      baseUrl: values.OTP_MESSAGEBIRD_BASE_URL,
    }),
});

export interface MessageBirdOptions {
  readonly accessKey: string;
  /** The sender: a number, or up to 11 letters and digits. */
  readonly originator: string;
  /** Senders of single countries, by ISO 3166-1 alpha-2. */
  readonly originators: ReadonlyMap<string, string>;
  /** Where our own `/webhooks/messagebird` is reached from outside; without it no reports are asked for. */
  readonly publicUrl: string | undefined;
  /** Checks the signature of reports; without it every report counts as forged. */
  readonly signingKey: string | undefined;
  /** An origin without a path. */
  readonly baseUrl: URL;
  /** A clock in milliseconds. */
  readonly now: () => number;
}

/** A socket that is silent for so long is cut. The worker's deadline is the one that counts. */
const socketTimeoutMs = 10_000;

export function createMessageBirdProvider(options: MessageBirdOptions): Provider {
  routeMessageBird(options.baseUrl);
  let client: MessageBird | undefined;
  // Loaded where it is configured.
  const opened = import("messagebird").then(
    ({ default: { initClient } }) => (client = initClient(options.accessKey, socketTimeoutMs)),
  );
  const signingKey =
    options.signingKey === undefined ? undefined : createSecretKey(Buffer.from(options.signingKey, "utf8"));
  const { publicUrl } = options;

  return {
    name: "messagebird",

    async send(sms: OutgoingMessage, signal, onStatus) {
      const { messages, voice_messages: calls } = client ?? (await opened);
      const originatorOf = options.originators.get(sms.region) ?? options.originator;
      const common = {
        // A fresh list: the package writes into what it is given.
        recipients: [sms.to.slice(1)],
        body: sms.text,
        reference: sms.reference,
        ...(publicUrl === undefined || signingKey === undefined
          ? {}
          : { reportUrl: publicUrl + reportPath("messagebird") }),
      };
      const text = { ...common, originator: originatorOf, validity: sms.validitySeconds, datacoding: "auto" as const };
      const { answer, record } = await call(
        (done) =>
          sms.channel === "voice"
            ? calls.create({ ...common, ...spokenBy(sms, originatorOf) }, done)
            : messages.create(text, done),
        signal,
        onStatus,
      );
      return outcomeOf(answer, record);
    },

    async readReport(request) {
      if (signingKey === undefined) return { kind: "forged", cause: "no secret" };
      if (publicUrl === undefined) return { kind: "forged", cause: "no public URL" };
      const cause = await whyForged(request, publicUrl, signingKey, options.now());
      return cause === undefined ? readReport(request) : { kind: "forged", cause };
    },

    async examine() {
      const { balance } = client ?? (await opened);
      const { answer, record } = await call((done) => balance.read(done), AbortSignal.timeout(socketTimeoutMs));
      const clock = clockFindings("MessageBird", record.date, options.now());
      return [...examineBalance(answer, record), ...clock, closing];
    },
  };
}

/** How a call is made: by a number, since letters call nobody, and not onto a machine. The text says the code twice itself. */
function spokenBy({ locale }: OutgoingMessage, sender: string) {
  const isNumber = /^\+?\d+$/.test(sender);
  return {
    ...(isNumber ? { originator: sender } : {}),
    language: locale.toLowerCase() as VoiceLanguage,
    ifMachine: "hangup" as const,
  };
}

/** What the package called back with. */
interface PackageAnswer {
  readonly error: PackageError | null;
  readonly value: unknown;
}

interface PackageError {
  readonly errors?: readonly {
    readonly code?: number;
    readonly parameter?: string | null;
  }[];
}

/** One call of the package, ended by the signal. */
async function call(
  begin: (done: (error: unknown, value: unknown) => void) => void,
  signal: AbortSignal,
  onStatus?: OnStatus,
): Promise<{ answer: PackageAnswer; record: CallRecord }> {
  const { promise, resolve } = Promise.withResolvers<PackageAnswer>();
  const done = (error: unknown, value: unknown) => resolve({ error: error ?? null, value });
  const record = recorded(() => {
    // The deadline has passed, so nothing is sent. An aborted signal has no second event.
    if (signal.aborted) done({}, undefined);
    else begin(done);
  }, onStatus);
  const onAbort = () => {
    record.request?.destroy(new Error("deadline"));
    resolve({ error: {}, value: undefined });
  };
  signal.addEventListener("abort", onAbort, { once: true });
  const answer = await promise;
  signal.removeEventListener("abort", onAbort);
  return { answer, record };
}

/** Error codes of the REST API, as its own client libraries list them. */
const notAllowedCode = 2;
const parameterCodes = new Set([9, 10]);
const noBalanceCode = 25;

function outcomeOf({ error, value }: PackageAnswer, record: CallRecord): SendOutcome {
  const { status } = record;
  if (status === undefined) return outcomeWithoutAnswer(record.wasConnected);
  const faults = error?.errors ?? [];
  const said = faults.map((fault) => `${fault.code} ${fault.parameter ?? ""}`.trim()).join(", ");
  const detail = `HTTP ${status}${said === "" ? "" : `: ${said}`}`;
  if (status >= 200 && status < 300 && faults.length === 0) return acceptance(value) ?? { kind: "ambiguous", detail };
  return outcomeOfAnswer({ status, detail, cause: causeOf(faults), retryAfterMs: waitAskedMs(record.retryAfter) });
}

/** The cause that the API's error codes name, also beside a success status. */
function causeOf(faults: NonNullable<PackageError["errors"]>): "recipient" | "credentials" | "balance" | "content" {
  if (faults.some(({ code }) => code === notAllowedCode)) return "credentials";
  if (faults.some(({ code }) => code === noBalanceCode)) return "balance";
  const isAboutRecipient = faults.some(
    ({ code, parameter }) => parameterCodes.has(code ?? 0) && (parameter === "recipients" || parameter === "recipient"),
  );
  return isAboutRecipient ? "recipient" : "content";
}

/** Success is a message id and at least one recipient, and nothing less. */
function acceptance(value: unknown): SendOutcome | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { id, recipients } = value as { id?: unknown; recipients?: { totalCount?: unknown } | null };
  if (typeof id !== "string" || id === "" || typeof recipients?.totalCount !== "number") return undefined;
  return recipients.totalCount >= 1 ? { kind: "accepted", providerMessageId: id } : undefined;
}

/**
 * Checks the signature over the exact public URL and the body; undefined for a genuine one. The package's own check takes signatures that never
 * expire, and its Express middleware lets forged ones through, so this is done with jose.
 */
async function whyForged(
  { target, headers, body }: ReportRequest,
  publicUrl: string,
  key: KeyObject,
  now: number,
): Promise<ForgedCause | undefined> {
  const jwt = headers["messagebird-signature-jwt"];
  if (typeof jwt !== "string") return "unsigned";
  const { errors, jwtVerify } = await import("jose");
  try {
    const { payload } = await jwtVerify(jwt, key, {
      issuer: "MessageBird",
      algorithms: ["HS256", "HS384", "HS512"],
      requiredClaims: ["exp", "jti", "url_hash"],
      clockTolerance: 5,
      currentDate: new Date(now),
    });
    const bodyHash = body.length === 0 ? undefined : sha256(body);
    const isAbout = payload["url_hash"] === sha256(publicUrl + target) && payload["payload_hash"] === bodyHash;
    return isAbout ? undefined : "signature";
  } catch (error) {
    const isEarly = error instanceof errors.JWTClaimValidationFailed && error.claim === "nbf";
    return isEarly || error instanceof errors.JWTExpired ? "timestamp" : "signature";
  }
}

function sha256(bytes: string | Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

const deliveries = new Map<string, "ACCEPTED" | "DELIVERED" | "UNDELIVERED">([
  ["scheduled", "ACCEPTED"],
  ["sent", "ACCEPTED"],
  ["buffered", "ACCEPTED"],
  ["delivered", "DELIVERED"],
  ["expired", "UNDELIVERED"],
  ["delivery_failed", "UNDELIVERED"],
  // Of calls.
  ["calling", "ACCEPTED"],
  ["answered", "DELIVERED"],
  ["busy", "UNDELIVERED"],
  ["machine", "UNDELIVERED"],
  ["failed", "UNDELIVERED"],
]);

/** A report comes in the query of a GET, or as a form or JSON of a POST. */
function readReport({ target, headers, body }: ReportRequest): ReportReading {
  const fields = new URLSearchParams(target.split("?")[1] ?? "");
  const text = Buffer.from(body).toString("utf8");
  if (String(headers["content-type"]).startsWith("application/json")) {
    try {
      for (const [name, value] of Object.entries(JSON.parse(text) as object)) fields.append(name, String(value));
    } catch {
      return { kind: "irrelevant" };
    }
  } else {
    for (const [name, value] of new URLSearchParams(text)) fields.append(name, value);
  }
  const reference = fields.get("reference");
  const delivery = deliveries.get(fields.get("status") ?? "");
  if (reference === null || delivery === undefined) return { kind: "irrelevant" };
  const why = [fields.get("statusReason"), fields.get("statusErrorCode")].filter(
    (part) => part !== null && part !== "",
  );
  return {
    kind: "genuine",
    reports: [
      {
        reference,
        providerMessageId: fields.get("id") ?? undefined,
        delivery,
        detail: why.length === 0 ? undefined : why.join(" "),
      },
    ],
  };
}

/** Its migration page says so, and nothing else does. */
const closing: Finding = {
  ok: false,
  isWarning: true,
  sentence:
    "MessageBird's older API may close on 2026-12-31 (as its migration page says, unconfirmed): set OTP_PROVIDERS=bird, OTP_BIRD_API_KEY, OTP_BIRD_ORIGINATOR and, for reports, OTP_BIRD_WEBHOOK_SECRET in time.",
};

function examineBalance({ error, value }: PackageAnswer, { status, failure }: CallRecord): Finding[] {
  if (status === undefined) return [{ ok: false, sentence: unreached("MessageBird", failure) }];
  if (status === 401 || status === 403 || error?.errors?.some(({ code }) => code === notAllowedCode)) {
    return [{ ok: false, sentence: "MessageBird does not accept OTP_MESSAGEBIRD_ACCESS_KEY." }];
  }
  const { amount, type, payment } = (value ?? {}) as { amount?: unknown; type?: unknown; payment?: unknown };
  if (status !== 200 || typeof amount !== "number") {
    return [{ ok: false, sentence: `MessageBird answers HTTP ${status} when asked for the balance.` }];
  }
  const isPrepaid = payment === "prepaid";
  return [
    { ok: true, sentence: "MessageBird accepts the access key." },
    {
      ok: !isPrepaid || amount > 0,
      sentence: `The MessageBird balance is ${amount} ${String(type)}${isPrepaid && amount <= 0 ? ": nothing can be sent" : ""}.`,
    },
  ];
}
