/**
 * Reads a genuine report of a declared provider: the fields that its declaration points to, in the body or in the URL's query.
 */
import type { Report } from "../../../otp/message/message.ts";
import type { ReportReading, ReportRequest } from "../../provider.ts";
import { textOf } from "./answer.ts";
import { readFormOrJson } from "./form.ts";
import { lookUp, lookUpItems } from "./pointer.ts";
import type { Reports } from "./shape.ts";

/** How many reports are read of one request; a gateway bounds its own bodies. */
const reportsMax = 200;

/** The report, or those that `each` points to; irrelevant where none names a message and a status that is declared. Pure. */
export function readReport(reports: Reports, request: ReportRequest): ReportReading {
  const query = new URLSearchParams(request.target.split("?")[1] ?? "");
  const body = bodyOf(request);
  const items = reports.each === undefined ? [body] : lookUpItems(body, reports.each).slice(0, reportsMax);
  const found = items.flatMap((item) => reportOf(reports, item, query) ?? []);
  return found.length === 0 ? { kind: "irrelevant" } : { kind: "genuine", reports: found };
}

/** What pointers into a request look into. Pure. */
export function bodyOf({ headers, body }: ReportRequest): unknown {
  return readFormOrJson(String(headers["content-type"]), Buffer.from(body).toString("utf8"));
}

function reportOf(reports: Reports, body: unknown, query: URLSearchParams): Report | undefined {
  const find = (source: string | undefined) => {
    if (source === undefined) return undefined;
    return source.startsWith("?") ? (query.get(source.slice(1)) ?? undefined) : textOf(lookUp(body, source));
  };
  const [reference, status] = [find(reports.reference), find(reports.status)];
  const delivery = deliveryOf(reports, find(reports.exact)) ?? deliveryOf(reports, status);
  if (reference === undefined || delivery === undefined) return undefined;
  const detail = find(reports.detail) ?? (delivery === "UNDELIVERED" ? status : undefined);
  return { reference, providerMessageId: find(reports.id), delivery, detail };
}

function deliveryOf({ accepted = [], delivered, undelivered }: Reports, status: string | undefined) {
  const isIn = (list: Reports["delivered"]) => list.some((each) => String(each) === status);
  if (isIn(delivered)) return "DELIVERED";
  if (isIn(undelivered)) return "UNDELIVERED";
  return isIn(accepted) ? "ACCEPTED" : undefined;
}
