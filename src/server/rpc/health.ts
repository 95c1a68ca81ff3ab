/**
 * grpc.health.v1: whether the server takes calls, for gRPC's own clients, load balancers and Kubernetes. It serves until
 * it is told to stop; then every watcher is told so and let go, before any connection is. How the database and the
 * providers are is for /readyz to say: a client that hears NOT_SERVING while a provider fails could not even verify.
 */
import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from "@connectrpc/connect";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.ts";

export interface HealthService {
  readonly routes: (router: ConnectRouter) => void;
  /** Says NOT_SERVING from now on, and ends every watch. Safe to repeat. */
  drain(): void;
}

/** `services` are the names that have a status of their own, beside the empty one of the whole server. */
export function createHealth(services: readonly string[]): HealthService {
  const names = new Set(["", ...services]);
  const watchers = new Set<() => void>();
  let draining = false;

  const status = () => (draining ? Status.NOT_SERVING : Status.SERVING);
  const statusOf = (service: string) => (names.has(service) ? status() : undefined);

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
      if (!names.has(service)) throw new ConnectError("there is no such service", Code.NotFound);
      return { status: status() };
    },
    list() {
      return { statuses: Object.fromEntries([...names].map((name) => [name, { status: status() }])) };
    },
    async *watch({ service }, { signal }) {
      const first = statusOf(service);
      yield { status: first ?? Status.SERVICE_UNKNOWN };
      await change(signal);
      const next = statusOf(service);
      if (!signal.aborted && next !== undefined && next !== first) yield { status: next };
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
