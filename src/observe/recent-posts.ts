/**
 * The latest post to each endpoint from this instance: when it was, and what came back. It is in memory alone, and an endpoint that
 * was not posted to since the start has none.
 */
import type { Posted } from "../delivery/post.ts";
import type { Instant } from "../system.ts";

export interface RecentPost {
  readonly atMs: Instant;
  readonly posted: Posted;
}

export interface RecentPosts {
  note(endpointId: string, posted: Posted): void;
  read(endpointId: string): RecentPost | undefined;
}

/** Of more endpoints those that were posted to longest ago are forgotten: some 200 bytes each. */
const endpointsMax = 10_000;

/** `now` is a clock in milliseconds. */
export function createRecentPosts(now: () => Instant): RecentPosts {
  const known = new Map<string, RecentPost>();
  return {
    note(endpointId, posted) {
      known.delete(endpointId);
      known.set(endpointId, { atMs: now(), posted });
      if (known.size > endpointsMax) known.delete(known.keys().next().value ?? "");
    },
    read: (endpointId) => known.get(endpointId),
  };
}
