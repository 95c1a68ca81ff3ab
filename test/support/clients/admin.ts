/**
 * Clients of AdminService, by Connect and by gRPC.
 */
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService } from "../../../gen/otp/admin/v1/admin_service_pb.ts";

const transports = {
  connect: (baseUrl: string): Transport => createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  grpc: (baseUrl: string): Transport => createGrpcTransport({ baseUrl }),
};

export type AdminClient = Client<typeof AdminService>;
export type AdminProtocol = keyof typeof transports;

/** A client that brings this key with each call. */
export function adminClient(baseUrl: string, key: string, protocol: AdminProtocol = "connect"): AdminClient {
  const transport = transports[protocol](baseUrl);
  const bearing: Transport = {
    unary: (method, signal, timeoutMs, header, input, values) =>
      transport.unary(method, signal, timeoutMs, bearer(header, key), input, values),
    stream: (method, signal, timeoutMs, header, input, values) =>
      transport.stream(method, signal, timeoutMs, bearer(header, key), input, values),
  };
  return createClient(AdminService, bearing);
}

function bearer(header: HeadersInit | undefined, key: string): Headers {
  const headers = new Headers(header);
  headers.set("authorization", `Bearer ${key}`);
  return headers;
}

/** An answer by plain HTTP, as curl gets it. */
export async function askAdmin(
  baseUrl: string,
  rpc: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string; headers: Headers }> {
  const response = await fetch(`${baseUrl}/otp.admin.v1.AdminService/${rpc}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text(), headers: response.headers };
}
