/**
 * Where a request leads, by its first lines: route → method → type → size, before anybody's key is looked at. The paths
 * of REST are in the table (rpcs.ts), those of the other surfaces in the proto.
 */
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { invalid, refuse, type Refusal } from "../../otp/reason.ts";
import { isWellEscaped } from "../http/escapes.ts";
import type { Request } from "../listener/exchange.ts";
import { envelopeBytes, textBytes, unknownEncoding } from "./frames.ts";
import {
  encodingOf,
  innerType,
  isGrpc,
  isGrpcWebText,
  mediaTypeOf,
  surfaceOf,
  type Encoding,
  type MediaType,
  type Surface,
} from "../http/headers.ts";
import { rpcRows, type RpcName } from "./rpcs.ts";

/** A request that leads to an RPC. */
export interface Routed {
  readonly ok: true;
  readonly handler: UniversalHandler;
  readonly surface: Surface;
  readonly url: string;
  /** The media type of the request, without parameters. */
  readonly type: string;
  /** Why the call is refused, where its headers say already that its body cannot be read. */
  readonly refusal: Refusal | undefined;
  /** The most bytes of its body. */
  readonly bytesMax: number;
  /** The message, where the path itself carries it. */
  readonly body: Uint8Array | undefined;
}

export type RouteResult = Routed | { readonly ok: false; readonly refusal: Refusal; readonly allow?: string };

/** What a refusal of the method tells beside itself. */
export function allowing({ allow }: { readonly allow?: string }): { headers?: { allow: string } } {
  return allow === undefined ? {} : { headers: { allow } };
}

export interface Router {
  /** Finds the RPC by the request's path (`pathOf`). ROUTE_NOT_FOUND, METHOD_NOT_ALLOWED or MEDIA_TYPE_UNSUPPORTED without one. */
  route(request: Request, path: string): RouteResult;
  /** Whether a path is one of ours, when it is asked for with this method or another. */
  knows(method: string, path: string): boolean;
}

/** `bodyBytesMax` is the most that a message may have. */
export function createRouter(handlers: readonly UniversalHandler[], bodyBytesMax: number): Router {
  const byPath = new Map(handlers.map((handler) => [handler.requestPath, handler]));
  const byRpc = new Map(handlers.map((handler) => [handler.method.name, handler]));
  // A service without REST has none of its paths.
  const isRest = rpcRows.some(({ name }) => byRpc.has(name));

  return {
    knows(method, path) {
      const folded = foldSlashes(path);
      return byPath.has(folded) || (isRest && matchRest(method, folded) !== undefined);
    },

    route(request, given) {
      const { method = "", url = "" } = request;
      const path = foldSlashes(given);
      const rest = isRest ? matchRest(method, path) : undefined;
      if (rest?.kind === "method-not-allowed") return methodNotAllowed([rest.allow]);
      const handler = rest === undefined ? byPath.get(path) : byRpc.get(rest.rpc);
      if (handler === undefined) return refuse("ROUTE_NOT_FOUND", isOfRpc.test(path) ? { code: "UNIMPLEMENTED" } : {});
      if (rest === undefined && !handler.allowedMethods.includes(method)) {
        return methodNotAllowed(handler.allowedMethods);
      }
      const { type, otherCharset } = mediaTypeOf(request.headers["content-type"]);
      const isRead = method === "GET";
      const surface = rest !== undefined ? "rest" : isRead ? "connect" : surfaceOf(type);
      const bytesMax = isGrpc(surface) ? framedBytes(type, bodyBytesMax) : bodyBytesMax;
      let refusal: Refusal | undefined;
      if (!isRead) {
        const encoding = encodingOf(surface, request.headers);
        const wrongType = refusalOfType(request, handler, { surface, type, otherCharset, encoding });
        if (wrongType !== undefined) return { ok: false, refusal: wrongType };
        if (encoding === "unknown") refusal = unknownEncoding;
        else if (Number(request.headers["content-length"] ?? 0) > bytesMax) ({ refusal } = refuse("BODY_TOO_LARGE"));
      }
      const query = isRead && rest === undefined && url.includes("?") ? url.slice(url.indexOf("?")) : "";
      if (!isWellEscaped(query)) ({ refusal } = invalid(undefined, "The query is not UTF-8 once it is unescaped."));
      const requestUrl = `http://otpd${handler.requestPath}${query}`;
      return { ok: true, handler, surface, url: requestUrl, type, bytesMax, refusal, body: rest?.body };
    },
  };
}

/** The path of a request, without its query; also of one in the absolute form, which names a host before the path. */
export function pathOf(request: Request): string {
  const { url = "" } = request;
  const queryAt = url.indexOf("?");
  const target = queryAt < 0 ? url : url.slice(0, queryAt);
  return target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/]+(?=\/)/i, "");
}

/**
 * A path as it may lead to an RPC or a public page: a base URL that ends in a slash leaves two slashes at the path's front.
 * Other paths are not folded: one more slash must not lead past a proxy that blocks such a path by its name.
 */
export function foldSlashes(path: string): string {
  return path.startsWith("//") ? path.replace(/^\/+/, "/") : path;
}

/** Refuses a method, and says which ones the path takes, in words and for `Allow`. */
export function methodNotAllowed(
  methods: readonly string[],
): Exclude<RouteResult, Routed> & { readonly allow: string } {
  const message = `The path takes ${methods.join(" or ")}, and no other method.`;
  return { ...refuse("METHOD_NOT_ALLOWED", { message }), allow: methods.join(", ") };
}

/** What only an RPC's path looks like: `/package.Service/Method`. */
const isOfRpc = /^\/\w+(?:\.\w+)+\/\w+$/;

/** How a body is to be read, by the headers. */
interface BodyForm extends MediaType {
  readonly surface: Surface;
  readonly encoding: Encoding;
}

/** Refuses a media type that a path does not take, and says which ones it does. */
function refusalOfType(
  request: Request,
  handler: UniversalHandler,
  { surface, type, otherCharset, encoding }: BodyForm,
): Refusal | undefined {
  const unsupported = (message: string) => refuse("MEDIA_TYPE_UNSUPPORTED", { message }).refusal;
  if (surface === "rest") {
    if (type !== "application/json" || encoding !== "identity") return refuse("MEDIA_TYPE_UNSUPPORTED").refusal;
  } else {
    if (!takes(handler, type))
      return unsupported(`This path takes ${listed(rpcTypes.filter((known) => takes(handler, known)))}.`);
    if (handler.method.methodKind === "bidi_streaming" && request.httpVersionMajor < 2)
      return unsupported("This path is served over HTTP/2 alone.");
    // It needs trailers, which HTTP/1.1 clients do not read.
    if (surface === "grpc" && request.httpVersionMajor < 2)
      return unsupported("application/grpc is served over HTTP/2 alone; over HTTP/1.1 there is application/grpc-web.");
  }
  if (otherCharset === undefined) return undefined;
  return unsupported(`The charset ${otherCharset} is not served here. Send the body in UTF-8.`);
}

const rpcTypes = ["json", "proto", "connect+json", "connect+proto", "grpc", "grpc-web", "grpc-web-text"].map(
  (name) => `application/${name}`,
);

/** Whether a path takes a media type. Base64 is read once it is whole, which a stream from the client never need be. */
function takes({ method, supportedContentType }: UniversalHandler, type: string): boolean {
  const isText = type.startsWith("application/grpc-web-text");
  if (isText && (!isGrpcWebText(type) || method.methodKind === "bidi_streaming")) return false;
  return supportedContentType(innerType(type));
}

const listed = (names: readonly string[]) => `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

function framedBytes(type: string, messageBytesMax: number): number {
  const framed = messageBytesMax + envelopeBytes;
  return isGrpcWebText(type) ? textBytes(framed) : framed;
}

// ---- REST -----------------------------------------------------------------------------------------------------------

/** What a path leads to: an RPC, with the body that the path itself carries; or the methods it does take. */
type RestMatch =
  | { readonly kind: "rpc"; readonly rpc: RpcName; readonly body: Uint8Array | undefined }
  | { readonly kind: "method-not-allowed"; readonly allow: string };

const whole = new Map(rpcRows.filter(({ path }) => !path.includes("{")).map((row) => [row.path, row]));
const withSegment = rpcRows
  .filter(({ path }) => path.includes("{"))
  .map(({ name, method, path }) => ({
    name,
    method,
    field: /\{(\w+)\}/.exec(path)?.[1] ?? "",
    pattern: new RegExp(`^${path.replace(/\{\w+\}/, "([^/]{1,256})")}$`),
  }));

/** Finds the route of a path without its query; undefined when `/v1` has none. */
function matchRest(method: string, path: string): RestMatch | undefined {
  const row = whole.get(path);
  if (row !== undefined) {
    const { name: rpc, method: allow } = row;
    return allow === method ? { kind: "rpc", rpc, body: undefined } : { kind: "method-not-allowed", allow };
  }
  for (const route of withSegment) {
    const segment = route.pattern.exec(path)?.[1];
    if (segment === undefined) continue;
    if (route.method === method) {
      const body = Buffer.from(JSON.stringify({ [route.field]: decodeSegment(segment) }));
      return { kind: "rpc", rpc: route.name, body };
    }
    // A POST to /v1/otp/verfy is a typo, not a wrong method on a verification.
    return segment.length === requestIdChars ? { kind: "method-not-allowed", allow: route.method } : undefined;
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
