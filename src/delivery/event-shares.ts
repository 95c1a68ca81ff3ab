/**
 * How an instance's POSTs of events are shared among endpoints: those that are slow, or do not answer, must not hold up the
 * others.
 */

/** How many POSTs an endpoint may have under way while there are fewer than `posts` in all. */
export interface Share {
  readonly posts: number;
  readonly perEndpoint: number;
}

/** An endpoint that answers within 100 ms takes 160 events a second so. */
export const postsPerEndpointMax = 16;
export const lastShare: Share = { posts: 256, perEndpoint: 1 };
/** It takes some eighty endpoints to leave no place. */
export const shares: readonly Share[] = [
  { posts: 128, perEndpoint: postsPerEndpointMax },
  { posts: 192, perEndpoint: 4 },
  lastShare,
];

/** The POSTs under way. */
export interface Tally {
  /** All of them. */
  readonly posts: number;
  /** Some endpoint did not answer its last POST. */
  readonly hasSilent: boolean;
  begin(endpointId: string): void;
  end(endpointId: string): void;
  /** Notes whether an endpoint answered: until it does, it has only what the last share gives. */
  note(endpointId: string, isAnswered: boolean): void;
  /** Endpoints that have all of such a share. One with a place left may get all of it: up to twice as many. */
  full(share: Share): string[];
}

export function createTally(): Tally {
  const busy = new Map<string, number>();
  const silent = new Set<string>();
  const add = (id: string, change: number) => {
    const count = (busy.get(id) ?? 0) + change;
    if (count === 0) busy.delete(id);
    else busy.set(id, count);
    tally.posts += change;
  };
  const tally = {
    posts: 0,
    get hasSilent() {
      return silent.size > 0;
    },
    begin: (id: string) => add(id, 1),
    end: (id: string) => add(id, -1),
    note(id: string, isAnswered: boolean) {
      if (isAnswered) silent.delete(id);
      else silent.add(id);
    },
    full(share: Share) {
      const full = [...busy].filter(([, count]) => count >= share.perEndpoint).map(([id]) => id);
      return share === lastShare ? full : [...full, ...silent];
    },
  };
  return tally;
}
