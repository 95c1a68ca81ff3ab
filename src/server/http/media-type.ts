/**
 * A Content-Type as this server reads it: the type alone says how a body is to be read. Of its parameters only the charset
 * matters, and there is one; clients write the others as they like, and proxies leave a `;` behind.
 */

/** How a call reached us. */
export type Surface = "rest" | "connect" | "grpc" | "grpc-web";

export interface MediaType {
  /** In lower case, without parameters; "" where there is none, or more than one. */
  readonly type: string;
  /** A charset that is not UTF-8, as far as its name may be repeated; undefined without one. */
  readonly otherCharset: string | undefined;
}

const json: MediaType = { type: "application/json", otherCharset: undefined };

/** Reads the header. Pure. */
export function mediaTypeOf(header: string | undefined): MediaType {
  if (header === json.type) return json;
  const [first = "", ...parameters] = (header ?? "").split(";");
  const type = first.trim().toLowerCase();
  const charsets = parameters.flatMap((parameter) => {
    const [name = "", value = ""] = parameter.split("=", 2);
    return name.trim().toLowerCase() === "charset" ? [value.trim().replaceAll('"', "")] : [];
  });
  const other = charsets.find((charset) => !/^utf-?8$/i.test(charset));
  return {
    type: /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/.test(type) ? type : "",
    otherCharset: other === undefined || /^[a-z0-9._:+-]{1,40}$/i.test(other) ? other : "that it names",
  };
}

/** The surface of a media type on the paths of RPCs. */
export function surfaceOf(type: string): "connect" | "grpc" | "grpc-web" {
  if (type.startsWith("application/grpc-web")) return "grpc-web";
  return type.startsWith("application/grpc") ? "grpc" : "connect";
}

/** True for gRPC-web in base64. */
export function isGrpcWebText(type: string): boolean {
  return type === "application/grpc-web-text" || type === "application/grpc-web-text+proto";
}

/** The type of what a body holds once it is out of base64. */
export function innerType(type: string): string {
  return isGrpcWebText(type) ? "application/grpc-web+proto" : type;
}
