/**
 * grpc.health.v1: whether the server takes calls, for gRPC's own clients, load balancers and Kubernetes. It serves until
 * it is told to stop; then every watcher is told so and let go, before any connection is. How the database and the
 * providers are is for /readyz to say: a client that hears NOT_SERVING while a provider fails could not even verify.
 */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from "@connectrpc/connect";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
  HealthCheckResponseSchema,
} from "../../gen/grpc/health/v1/health_pb.ts";

export interface HealthService {
  /** Registers the RPCs. */
  readonly routes: (router: ConnectRouter) => void;
  /** Says NOT_SERVING from now on, and ends every watch. Safe to repeat. */
  drain(): void;
}

/** `services` are the names that have a status of their own, beside the empty one of the whole server. */
export function createHealth(services: readonly string[]): HealthService {
  const names = new Set(["", ...services]);
  const watchers = new Set<() => void>();
  let draining = false;

  function statusOf(service: string): Status | undefined {
    if (!names.has(service)) return undefined;
    return draining ? Status.NOT_SERVING : Status.SERVING;
  }

  /** Resolves when the server drains, or when a watcher has gone. */
  async function change(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => resolve();
    watchers.add(wake);
    signal.addEventListener("abort", wake, { once: true });
    if (draining || signal.aborted) wake();
    await promise;
    watchers.delete(wake);
  }

  const rpcs: ServiceImpl<typeof Health> = {
    check({ service }) {
      const status = statusOf(service);
      if (status === undefined) throw new ConnectError("there is no such service", Code.NotFound);
      return { status };
    },
    list() {
      const statuses = [...names].map(
        (name) => [name, create(HealthCheckResponseSchema, { status: statusOf(name) ?? Status.UNKNOWN })] as const,
      );
      return { statuses: Object.fromEntries(statuses) };
    },
    async *watch({ service }, { signal }) {
      const status = statusOf(service);
      yield { status: status ?? Status.SERVICE_UNKNOWN };
      await change(signal);
      const next = statusOf(service);
      if (!signal.aborted && next !== undefined && next !== status) yield { status: next };
    },
  };

  return {
    routes: (router) => void router.service(Health, rpcs),
    drain() {
      draining = true;
      for (const wake of watchers) wake();
    },
  };
}
