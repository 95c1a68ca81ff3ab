/**
 * Where providers bring their reports: GET and POST /webhooks/<provider>. There is no API key; the provider's own
 * signature is what counts. A genuine report is answered 200 whatever it says, since a provider would only repeat it.
 */
import { reportPath, type Provider } from "../../delivery/provider.ts";
import type { Report } from "../../otp/message.ts";
import { refuse } from "../../otp/reason.ts";
import type { Page, PagesByPath } from "./pages.ts";

/** Makes the pages for all providers that report. */
export function createReportPages(
  providers: readonly Provider[],
  noteReport: (provider: string, report: Report) => Promise<void>,
): PagesByPath {
  const byPath = new Map<string, Page>();
  for (const provider of providers) {
    // One that has several channels is here once for each.
    if (provider.readReport === undefined || byPath.has(reportPath(provider.name))) continue;
    const page: Page = {
      methods: ["GET", "POST"],
      acts: true,
      async answer({ method, target, headers, body }) {
        const reading = await provider.readReport?.({ method, target, headers, body });
        if (reading === undefined || reading.kind === "forged") {
          return refuse("API_KEY_INVALID", { message: "The signature is not valid." });
        }
        if (reading.kind === "genuine") {
          for (const report of reading.reports) await noteReport(provider.name, report);
        }
        return { ok: true, value: { type: "application/json", body: "{}" } };
      },
    };
    byPath.set(reportPath(provider.name), page);
    if (provider.reportsBelow === true) byPath.set(`${reportPath(provider.name)}/`, page);
  }
  return byPath;
}
