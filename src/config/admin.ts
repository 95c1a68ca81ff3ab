/**
 * Where the operators' service listens.
 */
import type { Given } from "./variables.ts";

/** Where the operators' service listens. */
export interface AdminConfig {
  /** Nowhere, on this machine alone, or where the service does. */
  readonly access: "off" | "loopback" | "on";
  readonly port: number;
  /** Whether the operator has said so. What is on by itself keeps no start from going on. */
  readonly isAsked: boolean;
}

/** Unless the operator says otherwise it is served to this machine in development, and nowhere in production. Pure. */
export function adminOf({ OTP_ADMIN: asked, OTP_ADMIN_PORT: port, OTP_ENV: environment }: Given): AdminConfig {
  return { access: asked ?? (environment === "development" ? "loopback" : "off"), port, isAsked: asked !== undefined };
}

/** What is wrong with a service that others than this machine reach in production. `named` are the variables that are set. */
export function faultsOfOpenAdmin(named: ReadonlySet<string>): string[] {
  return named.has("OTP_TLS_CERT_FILE")
    ? []
    : [
        "OTP_ADMIN must not be on in production without OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE, since operators' keys go over it; loopback serves this machine alone.",
      ];
}
