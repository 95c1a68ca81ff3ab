/**
 * The pages beside the calls: probes and metrics, public documents, the form to embed, providers' reports and, in development, the demo.
 */
import { hostname } from "node:os";
import { createSpeak } from "../delivery/speak.ts";
import { everythingPublic } from "./first-start.ts";
import { receiptKeys } from "../otp/verification/receipt.ts";
import { Secret } from "../otp/keys/secret.ts";
import { createOwnNames } from "../server/http/own-names.ts";
import type { Demo } from "../server/pages/demo.ts";
import { createPublicDocuments } from "../server/pages/documents.ts";
import { createElementPages } from "../server/pages/elements.ts";
import { createOperations } from "../server/pages/operations.ts";
import type { PagesByPath } from "../server/pages/pages.ts";
import { createReportPages } from "../server/pages/reports.ts";
import type { OwnKeys } from "../service/callers/api-keys.ts";
import { randomText } from "../system.ts";
import { createTakeReport } from "../service/reports.ts";
import type { Base } from "./base.ts";
import { createReportLines } from "./report-lines.ts";

const demoTokenBytes = 18;

export interface SitePages {
  readonly demo: Demo | undefined;
  readonly pages: PagesByPath;
}

/** `nudge` has the worker look at once for what a report has made due. */
export async function createSitePages(base: Base, ownKeys: OwnKeys, nudge: () => void): Promise<SitePages> {
  const { config, system, keys, metrics, providersOf } = base;
  const operations = createOperations({
    metrics: metrics && config.metrics !== "off" ? { access: config.metrics, render: metrics.render } : undefined,
    judge: base.readiness.judge,
    isOwnName: createOwnNames([config.host, hostname()]),
    now: () => system.now(),
  });
  const documents = createPublicDocuments(receiptKeys(keys));
  const takeReport = createTakeReport({
    ...base,
    providersOf: (channel) => providersOf(channel).map(({ name }) => name),
    nudge,
  });
  const tellRefused = createReportLines(base.telemetry, () => system.monotonicMs());
  const reports = createReportPages([...base.providers, ...base.reportingOnly], {
    takeReport,
    speak: createSpeak({ ...base, tenantOf: base.tenants.tenantOf }),
    onReport(provider, outcome, { reference = "", cause } = {}) {
      metrics?.report(provider, outcome, cause);
      const isTold = cause === undefined || tellRefused(provider, cause);
      if (isTold) base.activities.tell({ tenant: "", kind: "report", outcome, provider });
      if (outcome === "unmatched") base.telemetry.unmatchedReport(provider, reference);
    },
  });
  const demo = config.demo
    ? (await import("../server/pages/demo.ts")).createDemo({
        inbox: base.inbox,
        host: config.host,
        token: new Secret(randomText(system, demoTokenBytes)),
        makeKey: (origins) => ownKeys.make({ ...everythingPublic, tenant: "default", name: "demo page", origins }),
      })
    : undefined;
  return {
    demo,
    pages: new Map([...operations, ...documents, ...createElementPages(), ...reports, ...(demo?.pages ?? [])]),
  };
}
