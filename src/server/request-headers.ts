/**
 * A request's headers as Connect is to see them.
 */
import type { Request } from "./answer.ts";
import type { Surface } from "./call.ts";

/** What says how a body is to be read. A GET has none, so there they say nothing. */
const bodyHeaders = new Set(["content-type", "content-encoding", "content-length"]);

/**
 * Makes the headers: without HTTP/2's pseudo headers, with a deadline of at most `deadlineMs`. `body` is what the path
 * itself carries, if it does.
 */
export function headersOf(
  { method, headers: given }: Pick<Request, "method" | "headers">,
  { surface, body }: { readonly surface: Surface; readonly body: Uint8Array | undefined },
  deadlineMs: number,
): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || name.startsWith(":") || (method === "GET" && bodyHeaders.has(name))) continue;
    headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  if (body !== undefined) headers.set("content-type", "application/json");
  // Connect would compress a long error, which the REST paths have yet to add to.
  if (surface === "rest") headers.delete("accept-encoding");
  // A deadline that makes no sense is none.
  if (surface === "grpc" || surface === "grpc-web") {
    const asked = grpcTimeoutMs(headers.get("grpc-timeout"));
    if (asked === undefined || asked > deadlineMs) headers.set("grpc-timeout", `${deadlineMs}m`);
  } else {
    const asked = /^\d{1,10}$/.exec(headers.get("connect-timeout-ms") ?? "")?.[0];
    if (asked === undefined || Number(asked) > deadlineMs) headers.set("connect-timeout-ms", `${deadlineMs}`);
    headers.delete("content-length");
  }
  return headers;
}

const grpcUnitsMs: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

function grpcTimeoutMs(header: string | null): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(header ?? "") ?? [];
  const unitMs = grpcUnitsMs[unit ?? ""];
  return unitMs === undefined ? undefined : Number(digits) * unitMs;
}
