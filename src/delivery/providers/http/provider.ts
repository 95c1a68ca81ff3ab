/**
 * A provider that an operator has declared in OTP_HTTP_PROVIDERS_FILE.
 */
import type { E164 } from "../../../otp/phone-number.ts";
import type { Finding, OutgoingMessage, Provider, ReportRequest } from "../../provider.ts";
import { reportPath } from "../../provider.ts";
import { outcomeWithoutAnswer } from "../outcome.ts";
import { needsBody, outcomeOf } from "./answer.ts";
import { createCall } from "./call.ts";
import { lookUp } from "./pointer.ts";
import { bodyOf, readReport } from "./report.ts";
import { createRequests, createSpeech, speechParameter } from "./request.ts";
import type { Declaration, Reports } from "./shape.ts";
import { isSame, whyForged } from "./signature.ts";

export interface HttpOptions {
  readonly declaration: Declaration;
  /** The secret of `auth`, where it has one. */
  readonly secret: string | undefined;
  /** What reports are checked with, where they are declared. */
  readonly reportSecret: string | undefined;
  /** What a handshake brings, where one is declared. */
  readonly handshakeSecret?: string | undefined;
  readonly publicUrl: string | undefined;
  /** Senders of single countries, by ISO 3166-1 alpha-2. */
  readonly originators: ReadonlyMap<string, string>;
  /** A clock in milliseconds. */
  readonly now: () => number;
}

export function createHttpProvider(options: HttpOptions): Provider {
  const { declaration, secret, reportSecret, handshakeSecret, publicUrl, originators, now } = options;
  const { name, reports } = declaration;
  const fillings = { secret, originators, reportUrl: reportUrlOf(options), now };
  const requestOf = createRequests(declaration, fillings);
  const speechOf = createSpeech(declaration, fillings);
  const call = createCall(declaration.url);
  const isReporting = reports !== undefined && reportSecret !== undefined;
  return {
    name,

    async send(sms, signal, onStatus) {
      if (speechOf !== undefined && fillings.reportUrl === undefined) {
        return { kind: "refused", cause: "content", detail: "without OTP_PUBLIC_URL no call can ask what it says" };
      }
      const request = requestOf(sms);
      if (request === undefined) {
        return { kind: "refused", cause: "content", detail: "a value has a control character, or dots for a path" };
      }
      const called = await call(request, signal, (status) => {
        onStatus?.(status);
        return needsBody(declaration, status);
      });
      return called.kind === "answered"
        ? outcomeOf(declaration, called.answer)
        : outcomeWithoutAnswer(called.wasConnected);
    },

    ...(isReporting
      ? {
          reportsBelow: reports.signature.kind === "path",
          async readReport(request) {
            const expected = { signature: reports.signature, secret: reportSecret, name, publicUrl };
            const challenge = challengeOf(reports, handshakeSecret, request);
            if (challenge !== undefined) return { kind: "greeted", challenge };
            const cause = await whyForged(expected, request, now());
            if (cause !== undefined) return { kind: "forged", cause };
            const asked = speechOf === undefined ? null : askedFor(request);
            if (asked === null || speechOf === undefined) return readReport(reports, request);
            // The time for a key is over: a voicemail presses none.
            if (!hasKey(declaration, request)) return { kind: "irrelevant" };
            return { kind: "asked", reference: asked, answer: speechOf };
          },
        }
      : {}),

    async examine() {
      return [sampleFinding(options)];
    },
  };
}

/** What a gateway wants to hear again that has brought the handshake's secret. It was not asked by anybody else. */
function challengeOf(
  { handshake }: Reports,
  expected: string | undefined,
  { method, target }: ReportRequest,
): string | undefined {
  if (method !== "GET" || handshake === undefined || expected === undefined) return undefined;
  const query = new URLSearchParams(target.split("?")[1] ?? "");
  const find = (source: string) => query.get(source.replace(/^\?/, "")) ?? "";
  const challenge = find(handshake.answer);
  return isSame(find(handshake.token), expected) && /^[A-Za-z0-9_-]{1,200}$/.test(challenge) ? challenge : undefined;
}

/** The message whose call has had a key pressed; null for a request that does not ask for speech. */
function askedFor({ target }: ReportRequest): string | null {
  return new URLSearchParams(target.split("?")[1] ?? "").get(speechParameter);
}

/** Whether a request says that a key was pressed, where it has to. */
function hasKey({ speech }: Declaration, request: ReportRequest): boolean {
  if (speech?.key === undefined) return true;
  const key = lookUp(bodyOf(request), speech.key);
  return typeof key === "string" && key !== "";
}

/** Where this provider's reports come to, with the secret where that is in the path; undefined where none can come. */
function reportUrlOf({ declaration: { name, reports }, reportSecret, publicUrl }: HttpOptions): string | undefined {
  if (reports === undefined || reportSecret === undefined || publicUrl === undefined) return undefined;
  return publicUrl + reportPath(name) + (reports.signature.kind === "path" ? `/${reportSecret}` : "");
}

/** Stands where a secret does; no encoding changes it. */
const mask = "***";

const sample: OutgoingMessage = {
  channel: "sms",
  prompt: "Press any key.",
  to: "+31612345678" as E164,
  region: "NL",
  text: "123456 is your code",
  code: "123456",
  locale: "en",
  validitySeconds: 600,
  reference: "AAAAAAAAAAAAAAAAAAAAAA.0",
};

/** Shows the request of a made-up message, its secrets masked. */
function sampleFinding(options: HttpOptions): Finding {
  const { originators, now } = options;
  const masked = { ...options, secret: mask, reportSecret: options.reportSecret && mask };
  const { auth } = options.declaration;
  // A token is made of a key, and a mask is not a key.
  const shownAuth = auth?.kind === "jwt-rs256" ? { kind: "bearer" as const, secret: auth.secret } : auth;
  const declaration = { ...options.declaration, auth: shownAuth };
  const requests = createRequests(declaration, { secret: mask, originators, reportUrl: reportUrlOf(masked), now });
  const request = requests({ ...sample, channel: declaration.channel });
  if (request === undefined) return { ok: false, sentence: `${declaration.name} cannot be asked: its URL is odd.` };
  const { method, url, headers, body } = request;
  const shown = Object.entries(headers).map(([name, value]) => {
    // The pair of basic is masked whole: its encoding would hide the mask.
    return `${name}: ${name === "authorization" && declaration.auth?.kind === "basic" ? `Basic ${mask}` : value}`;
  });
  const parts = [`${method} ${url.href}`, ...shown, ...(body === undefined ? [] : [body])];
  const { name } = declaration;
  const untried = `It was not called: otpd providers try ${name} does so.`;
  return { ok: true, sentence: `A message to ${name} is ${parts.join(" | ")} . ${untried}` };
}
