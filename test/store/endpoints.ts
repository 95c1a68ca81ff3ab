/**
 * Endpoints for tests of what is kept for them.
 */
import { sealSecret, type Endpoint } from "../../src/otp/operators/endpoint.ts";
import type { OwedEvent } from "../../src/otp/decisions/event.ts";
import type { EventJob } from "../../src/store/events.ts";
import type { Store } from "../../src/store/store.ts";
import { ringOf } from "./acts.ts";

/** An endpoint of the tenant `default` that asks for everything; its secret is 32 bytes of `secret`. */
export function endpointOf(id: string, changes: Partial<Endpoint> = {}, keys = ringOf(1), secret = 5): Endpoint {
  const box = Buffer.from(sealSecret(keys.current, id, Buffer.alloc(32, secret), Buffer.alloc(12, 1)));
  return {
    id,
    tenant: "default",
    url: "https://shop.example/otp",
    types: [],
    showPhones: false,
    kid: keys.current.kid,
    secrets: [{ box, createMs: 1_000, endMs: null }],
    createMs: 1_000,
    disableMs: null,
    why: null,
    failingSinceMs: null,
    ...changes,
  };
}

export async function added(store: Store, ...endpoints: Endpoint[]): Promise<void> {
  for (const endpoint of endpoints) {
    const outcome = await store.events.addEndpoint(endpoint, 5);
    if (outcome !== "added") throw new Error(outcome);
  }
}

export function claimAll(store: Store, changes: Partial<Parameters<Store["events"]["claimEvents"]>[0]> = {}) {
  return store.events.claimEvents({ max: 500, perEndpointMax: 500, busy: [], ...changes });
}

export function recordedAsTaken(store: Store, jobs: readonly EventJob[]) {
  return Promise.all(
    jobs.map((job) => store.events.recordTry(job, (endpoint) => ({ retry: null, isTaken: true, endpoint }))),
  );
}

/** All that waits and is due, taken off the outbox. */
export async function takeEvents(store: Store): Promise<OwedEvent[]> {
  const jobs = await claimAll(store);
  await recordedAsTaken(store, jobs);
  return jobs.map(({ event }) => event).toSorted((a, b) => a.createMs - b.createMs || (a.type < b.type ? -1 : 1));
}
