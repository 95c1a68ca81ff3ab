/**
 * The table of the REST paths, and how a request finds its row. `gen/openapi.json` is generated from the same table, so
 * nothing here may import from `gen/`.
 */

/** One REST path. */
export interface RestRoute {
  readonly method: "GET" | "POST";
  /** `{name}` stands for one segment, which is the request's field of that name. Without one, the body is the request. */
  readonly path: string;
  /** The RPC's name, such as "SendOtp". */
  readonly rpc: string;
}

/** Everything that `/v1` answers to. `{request_id}` takes whatever is one path segment and not a path of its own. */
export const restRoutes: readonly RestRoute[] = [
  { method: "POST", path: "/v1/otp/send", rpc: "SendOtp" },
  { method: "POST", path: "/v1/otp/verify", rpc: "VerifyOtp" },
  { method: "POST", path: "/v1/otp/resend", rpc: "ResendOtp" },
  { method: "POST", path: "/v1/otp/cancel", rpc: "CancelOtp" },
  { method: "GET", path: "/v1/otp/{request_id}", rpc: "GetOtp" },
];

/** What a path leads to: an RPC, with the body that the path itself carries; or the methods it does take. */
export type RestMatch =
  | { readonly kind: "rpc"; readonly rpc: string; readonly body: Uint8Array | undefined }
  | { readonly kind: "method-not-allowed"; readonly allow: string };

const matchers = restRoutes.map((route) => ({
  ...route,
  field: /\{(\w+)\}/.exec(route.path)?.[1] ?? "",
  pattern: new RegExp(`^${route.path.replace(/\{\w+\}/, "([^/]{1,256})")}$`),
}));

/** Finds the route of a path without its query; undefined when `/v1` has none. */
export function matchRest(method: string, path: string): RestMatch | undefined {
  for (const route of matchers) {
    const found = route.pattern.exec(path);
    if (found === null) continue;
    const segment = found[1];
    if (route.method === method) {
      const body =
        segment === undefined ? undefined : Buffer.from(JSON.stringify({ [route.field]: decodeSegment(segment) }));
      return { kind: "rpc", rpc: route.rpc, body };
    }
    // A POST to /v1/otp/verfy is a typo, not a wrong method on a verification.
    const isTypo = segment !== undefined && segment.length !== requestIdChars;
    return isTypo ? undefined : { kind: "method-not-allowed", allow: route.method };
  }
  return undefined;
}

const requestIdChars = 22;

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not a spelling of any id: it is looked up as it stands, and not found.
    return segment;
  }
}
