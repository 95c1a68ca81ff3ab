/**
 * A test event, posted to an endpoint once and at once, and what became of it. The audit has its entry before it is
 * posted.
 */
import { noteOf, type Author } from "../otp/operators/audit.ts";
import type { Endpoint } from "../otp/operators/endpoint.ts";
import { testEvent } from "../otp/decisions/event.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { Store } from "../store/store.ts";
import { randomText, type System } from "../system.ts";
import { outcomeOfTry, postEvent, postTimeoutMs } from "./event-worker.ts";
import type { Post, Posted } from "./post.ts";

export interface TryOptions {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly post: Post;
}

export interface Tried {
  readonly endpoint: Endpoint;
  readonly posted: Posted;
  readonly isTaken: boolean;
}

/** Undefined if there is no endpoint with this id. */
export async function tryEndpoint(
  { store, system, keys, post }: TryOptions,
  id: string,
  by: Author,
): Promise<Tried | undefined> {
  const endpoint = await store.events.findEndpoint(id);
  if (endpoint === undefined) return undefined;
  const note = noteOf(by, "webhook.test");
  if (note !== undefined) await store.registry.addAudit(note, { tenant: endpoint.tenant, subject: id });
  const now = store.now();
  const event = testEvent(randomText(system, 16), endpoint.tenant, now);
  const posted = await postEvent({ keys, post }, event, endpoint, now, AbortSignal.timeout(postTimeoutMs));
  return { endpoint, posted, isTaken: outcomeOfTry(posted) === "taken" };
}
