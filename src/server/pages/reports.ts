/**
 * Where providers bring their reports: GET and POST /webhooks/<provider>. There is no API key; the provider's own
 * signature counts. A genuine report is answered 200 whatever it says, since a provider would only repeat it. When a
 * key was pressed in a call, the provider asks here what the call says and is told the code, so only a genuine request
 * is answered.
 */
import {
  reportPath,
  type ForgedCause,
  type OutgoingMessage,
  type Provider,
  type ReportOutcome,
  type ReportRequest,
} from "../../delivery/provider.ts";
import { isFormType } from "../../delivery/providers/http/form.ts";
import { isWellEscaped } from "../http/escapes.ts";
import type { Report } from "../../otp/message/message.ts";
import { ok, refuse } from "../../otp/reason.ts";
import type { Page, PagesByPath } from "./pages.ts";

export interface ReportPageOptions {
  /** Takes a report, and tells whether it is on a message of ours. */
  readonly takeReport: (provider: string, report: Report) => Promise<boolean>;
  readonly speak: (reference: string) => Promise<OutgoingMessage | undefined>;
  /** Called with each request or report; with its reference, or with why it was refused. */
  readonly onReport: (
    provider: string,
    outcome: ReportOutcome,
    of?: { readonly reference?: string; readonly cause?: ForgedCause },
  ) => void;
}

/** What no provider sends: a target of so many characters, or a form of so many fields; of those whose escapes are no UTF-8, fewer. */
const targetMax = 2_048;
const fieldsMax = 512;
const oddFieldsMax = 32;

/**
 * Whether a report cannot be a provider's by its size. A form is sorted before its signature is checked, which took 3 ms with
 * 8,000 fields, and anybody can post one.
 */
function isOutsized({ target, headers, body }: Pick<ReportRequest, "target" | "headers" | "body">): boolean {
  if (target.length > targetMax || hasTooManyFields(target)) return true;
  return isFormType(String(headers["content-type"])) && hasTooManyFields(Buffer.from(body).toString("latin1"));
}

function hasTooManyFields(text: string): boolean {
  return text.split("&", fieldsMax + 1).length > (isWellEscaped(text) ? fieldsMax : oddFieldsMax);
}

/** Makes the pages for all providers that report. */
export function createReportPages(
  providers: readonly Provider[],
  { takeReport, speak, onReport }: ReportPageOptions,
): PagesByPath {
  const byPath = new Map<string, Page>();
  for (const provider of providers) {
    // One that has several channels is here once for each.
    if (provider.readReport === undefined || byPath.has(reportPath(provider.name))) continue;
    const page: Page = {
      methods: ["GET", "POST"],
      acts: true,
      async answer({ method, target, headers, body }) {
        const reading = isOutsized({ target, headers, body })
          ? undefined
          : await provider.readReport?.({ method, target, headers, body });
        if (reading === undefined || reading.kind === "forged") {
          onReport(provider.name, "refused", { cause: reading?.cause ?? "signature" });
          return refuse("API_KEY_INVALID", { message: "The signature is not valid." });
        }
        if (reading.kind === "greeted") return ok({ type: "text/plain", body: reading.challenge });
        if (reading.kind === "asked") {
          const message = await speak(reading.reference);
          // The code is over, or was never called out: there is nothing to say.
          return message === undefined ? refuse("REQUEST_NOT_FOUND") : ok(reading.answer(message));
        }
        if (reading.kind === "irrelevant") onReport(provider.name, "ignored");
        if (reading.kind === "genuine") {
          for (const report of reading.reports) {
            const isKnown = await takeReport(provider.name, report);
            onReport(provider.name, isKnown ? "matched" : "unmatched", { reference: report.reference });
          }
        }
        return { ok: true, value: { type: "application/json", body: "{}" } };
      },
    };
    byPath.set(reportPath(provider.name), page);
    if (provider.reportsBelow === true) byPath.set(`${reportPath(provider.name)}/`, page);
  }
  return byPath;
}
