/**
 * A provider that an operator has declared in OTP_HTTP_PROVIDERS_FILE.
 */
import type { E164 } from "../../../otp/phone-number.ts";
import type { Finding, OutgoingMessage, Provider } from "../../provider.ts";
import { reportPath } from "../../provider.ts";
import { outcomeWithoutAnswer } from "../outcome.ts";
import { needsBody, outcomeOf } from "./answer.ts";
import { createCall } from "./call.ts";
import { readReport } from "./report.ts";
import { createRequests } from "./request.ts";
import type { Declaration } from "./shape.ts";
import { isGenuine } from "./signature.ts";

export interface HttpOptions {
  readonly declaration: Declaration;
  /** The secret of `auth`, where it has one. */
  readonly secret: string | undefined;
  /** What reports are checked with, where they are declared. */
  readonly reportSecret: string | undefined;
  readonly publicUrl: string | undefined;
  /** Senders of single countries, by ISO 3166-1 alpha-2. */
  readonly originators: ReadonlyMap<string, string>;
  /** A clock in milliseconds. */
  readonly now: () => number;
}

export function createHttpProvider(options: HttpOptions): Provider {
  const { declaration, secret, reportSecret, publicUrl, originators, now } = options;
  const { name, reports } = declaration;
  const requestOf = createRequests(declaration, { secret, originators, reportUrl: reportUrlOf(options) });
  const call = createCall(declaration.url);
  const isReporting = reports !== undefined && reportSecret !== undefined;
  return {
    name,

    async send(sms, signal) {
      const request = requestOf(sms);
      if (request === undefined) {
        return { kind: "refused", cause: "content", detail: "a value has a control character, or dots for a path" };
      }
      const called = await call(request, signal, (status) => needsBody(declaration, status));
      return called.kind === "answered"
        ? outcomeOf(declaration, called.answer)
        : outcomeWithoutAnswer(called.wasConnected);
    },

    ...(isReporting
      ? {
          reportsBelow: reports.signature.kind === "path",
          async readReport(request) {
            const expected = { signature: reports.signature, secret: reportSecret, name, publicUrl };
            return (await isGenuine(expected, request, now())) ? readReport(reports, request) : { kind: "forged" };
          },
        }
      : {}),

    async examine() {
      return [sampleFinding(options)];
    },
  };
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
  const { declaration, originators } = options;
  const masked = { ...options, secret: mask, reportSecret: options.reportSecret && mask };
  const requests = createRequests(declaration, { secret: mask, originators, reportUrl: reportUrlOf(masked) });
  const request = requests(sample);
  if (request === undefined) return { ok: false, sentence: `${declaration.name} cannot be asked: its URL is odd.` };
  const { method, url, headers, body } = request;
  const shown = Object.entries(headers).map(([name, value]) => {
    // The pair of basic is masked whole: its encoding would hide the mask.
    return `${name}: ${name === "authorization" && declaration.auth?.kind === "basic" ? `Basic ${mask}` : value}`;
  });
  const parts = [`${method} ${url.href}`, ...shown, ...(body === undefined ? [] : [body])];
  return { ok: true, sentence: `A message to ${declaration.name} is ${parts.join(" | ")} .` };
}
