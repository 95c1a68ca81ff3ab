/**
 * Reads a genuine report of a declared provider: the fields that its declaration points to, in the body or in the URL's query.
 */
import type { Report } from "../../../otp/message.ts";
import type { ReportReading, ReportRequest } from "../../provider.ts";
import { textOf } from "./answer.ts";
import { formFields, isFormType } from "./form.ts";
import { lookUp } from "./pointer.ts";
import type { Reports } from "./shape.ts";

/** The report; irrelevant where it names no message, or a status that the declaration does not. Pure. */
export function readReport(reports: Reports, request: ReportRequest): ReportReading {
  const find = finderOf(request);
  const [reference, status] = [find(reports.reference), find(reports.status)];
  const delivery = deliveryOf(reports, status);
  if (reference === undefined || delivery === undefined) return { kind: "irrelevant" };
  const providerMessageId = reports.id && find(reports.id);
  return {
    kind: "report",
    report: { reference, providerMessageId, delivery, detail: (reports.detail && find(reports.detail)) ?? status },
  };
}

function deliveryOf({ accepted = [], delivered, undelivered }: Reports, status: string | undefined) {
  const named = (list: readonly (string | number | boolean)[]) => list.some((each) => String(each) === status);
  const deliveries: readonly [Report["delivery"], readonly (string | number | boolean)[]][] = [
    ["DELIVERED", delivered],
    ["UNDELIVERED", undelivered],
    ["ACCEPTED", accepted],
  ];
  return deliveries.find(([, list]) => named(list))?.[0];
}

/** Makes what finds the field of a source: a pointer into the body, or `?name` in the query. */
function finderOf(request: ReportRequest): (source: string) => string | undefined {
  const query = new URLSearchParams(request.target.split("?")[1] ?? "");
  const body = bodyOf(request);
  return (source) =>
    source.startsWith("?") ? (query.get(source.slice(1)) ?? undefined) : textOf(lookUp(body, source));
}

function bodyOf(request: ReportRequest): unknown {
  const text = Buffer.from(request.body).toString("utf8");
  if (isFormType(String(request.headers["content-type"]))) return formFields(text);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
