/**
 * Whether operators are served, and what a start does when their port is taken: it goes on without them, unless the
 * operator has asked for the service.
 */
import type { Base } from "./base.ts";
import type { OwnAddressOf } from "./calls.ts";
import type { Address, RunningServer } from "../server/listener/server.ts";

/** The operators' listener, or nothing in its place. */
export interface OpenedAdmin extends Pick<RunningServer, "reloadCertificate" | "stop"> {
  /** Undefined where nothing listens. */
  readonly address: Address | undefined;
  /** How many connections are open. */
  connections(): number;
}

const nothing: OpenedAdmin = {
  address: undefined,
  connections: () => 0,
  reloadCertificate() {},
  stop: () => Promise.resolve(),
};

export async function openAdmin(base: Base, ownAddressOf: OwnAddressOf, version: string): Promise<OpenedAdmin> {
  const { config, telemetry } = base;
  if (config.admin.access === "off") return nothing;
  const { startAdmin } = await import("./admin.ts");
  try {
    const server = await startAdmin(base, ownAddressOf, version);
    const { scheme, host, port } = server;
    telemetry.lifecycle("operators are served", { host, port });
    return {
      address: { scheme, host, port },
      connections: server.connections,
      reloadCertificate: () => server.reloadCertificate(),
      stop: (graceMs) => server.stop(graceMs),
    };
  } catch (error) {
    // What is on by itself must not keep the service from its callers: another program may have the port.
    if (config.admin.isAsked) throw error;
    telemetry.warning(`operators are not served: ${error instanceof Error ? error.message : String(error)}`);
    return nothing;
  }
}
