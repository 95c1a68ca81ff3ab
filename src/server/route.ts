/**
 * Where a request leads, by its first lines: route → method → type → size, before anybody's key is looked at.
 */
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { refuse, type Refusal } from "../otp/reason.ts";
import type { Request } from "./answer.ts";
import type { Surface } from "./call.ts";
import { mediaTypeOf } from "./media-type.ts";
import { matchRest } from "./rest-routes.ts";

/** A request that leads to an RPC. */
export interface Routed {
  readonly ok: true;
  readonly handler: UniversalHandler;
  readonly surface: Surface;
  readonly url: string;
  /** The message, where the path itself carries it. */
  readonly body: Uint8Array | undefined;
}

export type RouteResult = Routed | { readonly ok: false; readonly refusal: Refusal; readonly allow?: string };

/** What a refusal of the method tells beside itself. */
export function allowing({ allow }: { readonly allow?: string }): { headers?: { allow: string } } {
  return allow === undefined ? {} : { headers: { allow } };
}

export interface Router {
  /** Finds the RPC. ROUTE_NOT_FOUND, METHOD_NOT_ALLOWED, MEDIA_TYPE_UNSUPPORTED or BODY_TOO_LARGE without one. */
  route(request: Request): RouteResult;
  /** Whether a path is one of ours, when it is asked for with this method or another. */
  knows(method: string, path: string): boolean;
}

/** What a gRPC frame adds to its message: a flag and a length. */
export const envelopeBytes = 5;

/** `bodyBytesMax` is the most that a message may have. */
export function createRouter(handlers: readonly UniversalHandler[], bodyBytesMax: number): Router {
  const byPath = new Map(handlers.map((handler) => [handler.requestPath, handler]));
  const byRpc = new Map(handlers.map((handler) => [handler.method.name, handler]));

  return {
    knows(method, path) {
      const folded = foldSlashes(path);
      return byPath.has(folded) || matchRest(method, folded) !== undefined;
    },

    route(request) {
      const method = request.method ?? "";
      const url = request.url ?? "";
      const path = rpcPathOf(request);
      const rest = matchRest(method, path);
      if (rest?.kind === "method-not-allowed") return methodNotAllowed([rest.allow]);
      const handler = rest === undefined ? byPath.get(path) : byRpc.get(rest.rpc);
      if (handler === undefined) return refuse("ROUTE_NOT_FOUND");
      if (rest === undefined && !handler.allowedMethods.includes(method)) {
        return methodNotAllowed(handler.allowedMethods);
      }
      const { type, otherCharset } = mediaTypeOf(request.headers["content-type"]);
      const isRead = method === "GET";
      const surface = rest !== undefined ? "rest" : isRead ? "connect" : surfaceOf(type);
      if (!isRead) {
        const typeFits =
          surface === "rest"
            ? type === "application/json"
            : handler.supportedContentType(type) && !isGrpcWebText.test(type);
        const encoding = request.headers["content-encoding"] ?? "identity";
        const encodingFits = encoding === "identity" || (encoding === "gzip" && surface !== "rest");
        // gRPC needs trailers, which HTTP/1.1 clients do not read.
        if (!typeFits || !encodingFits || (surface === "grpc" && request.httpVersionMajor < 2)) {
          return refuse("MEDIA_TYPE_UNSUPPORTED");
        }
        if (otherCharset !== undefined) {
          const message = `The charset ${otherCharset} is not served here. Send the body in UTF-8.`;
          return refuse("MEDIA_TYPE_UNSUPPORTED", { message });
        }
        // gRPC's clients make "unknown" of a bare HTTP status: they are told where the body is read, in gRPC's own way.
        const speaksGrpc = surface === "grpc" || surface === "grpc-web";
        if (!speaksGrpc && Number(request.headers["content-length"] ?? 0) > bodyBytesMax)
          return refuse("BODY_TOO_LARGE");
      }
      const query = isRead && rest === undefined && url.includes("?") ? url.slice(url.indexOf("?")) : "";
      return { ok: true, handler, surface, url: `http://otpd${handler.requestPath}${query}`, body: rest?.body };
    },
  };
}

/** The path of a request, without its query; also of one in the absolute form, which names a host before the path. */
export function pathOf(request: Request): string {
  const target = request.url?.split("?", 1)[0] ?? "";
  return target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/]+(?=\/)/i, "");
}

/**
 * The path as it may lead to an RPC: a base URL that ends in a slash leaves two of them at its front. Not so for paths that
 * are no RPC: a proxy that keeps one from the world by its name must not be passed by with a slash more.
 */
export function rpcPathOf(request: Request): string {
  return foldSlashes(pathOf(request));
}

function foldSlashes(path: string): string {
  return path.startsWith("//") ? path.replace(/^\/+/, "/") : path;
}

/** Refuses a method, and says which ones the path takes, in words and for `Allow`. */
export function methodNotAllowed(
  methods: readonly string[],
): Exclude<RouteResult, Routed> & { readonly allow: string } {
  const message = `The path takes ${methods.join(" or ")}, and no other method.`;
  return { ...refuse("METHOD_NOT_ALLOWED", { message }), allow: methods.join(", ") };
}

/** Connect takes this type for gRPC-web's and then does not know it. */
const isGrpcWebText = /^application\/grpc-web-text/i;

function surfaceOf(contentType: string): Surface {
  if (contentType.startsWith("application/grpc-web")) return "grpc-web";
  return contentType.startsWith("application/grpc") ? "grpc" : "connect";
}
