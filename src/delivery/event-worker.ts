/**
 * The event worker posts events to tenants' endpoints: claim with a lease → POST, outside any transaction → record. At
 * least once: after a crash between the POST and the record, the event is posted again with the same id once its lease
 * ends.
 */
import {
  afterTry,
  backlogMax,
  resealed,
  secretNonceBytes,
  signingSecrets,
  type Endpoint,
  type TryOutcome,
} from "../otp/operators/endpoint.ts";
import { bodyOf, type OwedEvent } from "../otp/decisions/event.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import { readPhone } from "../otp/phone-number.ts";
import type { EventJob } from "../store/events.ts";
import type { Store } from "../store/store.ts";
import { recurring, type System } from "../system.ts";
import { createPoller } from "./poller.ts";
import type { Post, Posted } from "./post.ts";
import { signatureHeaders } from "./signature.ts";

export interface EventWorkerOptions {
  readonly store: Pick<Store, "events" | "now">;
  readonly system: System;
  readonly keys: KeyRing;
  readonly post: Post;
  /** Called when an endpoint was disabled because of its answers, or for want of any. */
  readonly onDisabled: (endpoint: Endpoint) => void;
  /** Called once a try is recorded. */
  readonly onTried: (outcome: TryOutcome, endpointId: string, posted: Posted) => void;
  /** Called with the number of events of live keys that were dropped: after their last try, or beyond a backlog. */
  readonly onDropped: (count: number) => void;
  /** Called with a fault of the worker's own. */
  readonly onFault: (error: unknown) => void;
}

export interface EventWorker {
  /** Begins to look for events that are due. */
  start(): void;
  /** Takes no more, waits up to `graceMs` for what is under way, and gives the rest back. */
  stop(graceMs: number): Promise<void>;
}

/** POSTs at once. */
const postsMax = 256;
/** And of those to one endpoint. One that answers within 100 ms takes 160 events a second so. */
export const postsPerEndpointMax = 16;
/**
 * How many POSTs an endpoint may have under way while there are fewer than `posts` in all: those that do not answer must not
 * hold up the others. It takes some eighty of them to leave no place.
 */
const shares = [
  { posts: 128, perEndpoint: postsPerEndpointMax },
  { posts: 192, perEndpoint: 4 },
  { posts: postsMax, perEndpoint: 1 },
];
/** What has not answered by then has not taken it. The specification asks for 15 to 30 s. */
export const postTimeoutMs = 15_000;
const unanswered: Posted = { kind: "unanswered", why: "it did not answer in time" };
/** The pause before the next poll where every endpoint with due events has all its POSTs under way. */
const idlePollMs = 1_000;
const releaseGraceMs = 1_000;
/** How often long backlogs are cut, and by how many rows in one act. */
const trimEveryMs = 15_000;
const trimRowsMax = 2_000;

/** Posts one event to an endpoint, signed with all its secrets that are in force. Never rejects for the far end's sake. */
export async function postEvent(
  { keys, post }: Pick<EventWorkerOptions, "keys" | "post">,
  event: OwedEvent,
  endpoint: Endpoint,
  now: number,
  signal: AbortSignal,
): Promise<Posted> {
  const { phone } = event;
  const e164 = phone === null ? undefined : readPhone(keys, phone.kid, phone.requestId, phone.box);
  const body = bodyOf(event, keys, e164, endpoint.showPhones);
  const headers = {
    "content-type": "application/json",
    "user-agent": "otpd",
    ...signatureHeaders(event.id, body, signingSecrets(keys, endpoint, now), now),
  };
  return post(new URL(endpoint.url), headers, body, signal);
}

/** What an answer means: 2xx has taken it, 410 wants nothing any more, all else is asked again. Pure. */
export function outcomeOfTry(posted: Posted): TryOutcome {
  if (posted.kind === "unanswered") return "failed";
  if (posted.status === 410) return "gone";
  return posted.status >= 200 && posted.status < 300 ? "taken" : "failed";
}

export function createEventWorker(options: EventWorkerOptions): EventWorker {
  const { store, system, onFault } = options;
  /** POSTs under way, by endpoint. */
  const busy = new Map<string, number>();
  let posts = 0;
  const cutShort: EventJob[] = [];
  const poller = createPoller({
    system,
    now: () => store.now(),
    nextDue: () => store.events.nextEventDue(),
    hasRoom: () => posts < postsMax,
    claim,
    nextPollMs: () => idlePollMs,
    onFault,
  });
  const trimmer = recurring(system, trimEveryMs, (isStopping) => trim(options, isStopping), onFault);

  async function claim(): Promise<void> {
    for (const { posts: max, perEndpoint } of shares) {
      if (posts >= max) continue;
      // One with a place left may get all of them: it then has at most twice its share in hand.
      const full = [...busy].filter(([, count]) => count >= perEndpoint).map(([id]) => id);
      const jobs = await store.events.claimEvents({ max: max - posts, perEndpointMax: perEndpoint, busy: full });
      if (poller.isStopping) return store.events.releaseEvents(jobs);
      for (const job of jobs) poller.begin(deliver(job));
      if (posts < max) return;
    }
  }

  async function deliver(job: EventJob): Promise<void> {
    const { endpoint, event } = job;
    posts += 1;
    busy.set(endpoint.id, (busy.get(endpoint.id) ?? 0) + 1);
    try {
      const post = (signal: AbortSignal) => postEvent(options, event, endpoint, store.now(), signal);
      const posted = await poller.withDeadline(postTimeoutMs, post, unanswered);
      // Cut short by our own stop, it says nothing of the endpoint.
      if (poller.isStopping && posted.kind === "unanswered") await giveBack(job);
      else await recordTry(options, job, posted);
    } finally {
      posts -= 1;
      const left = (busy.get(endpoint.id) ?? 1) - 1;
      if (left === 0) busy.delete(endpoint.id);
      else busy.set(endpoint.id, left);
      poller.pollIn(0);
    }
  }

  /** All that a stop cuts short at the same moment are given back together. */
  async function giveBack(job: EventJob): Promise<void> {
    cutShort.push(job);
    await Promise.resolve();
    const jobs = cutShort.splice(0);
    if (jobs.length > 0) await store.events.releaseEvents(jobs);
  }

  return {
    start() {
      poller.begin(reseal(options));
      trimmer.start();
      poller.pollIn(0);
    },
    async stop(graceMs) {
      poller.stop();
      await poller.drained(graceMs);
      // A POST that is cut short gives its event back, if there is time. Other events come due when their leases end.
      poller.abortCalls();
      await poller.drained(releaseGraceMs);
      await trimmer.stop();
    },
  };
}

/** Cuts long backlogs, each in acts of its own: SQLite has everybody wait for one. */
async function trim({ store: { events }, onDropped }: EventWorkerOptions, isStopping: () => boolean): Promise<void> {
  for (const id of await events.longBacklogs(backlogMax)) {
    for (let dropped = trimRowsMax; dropped === trimRowsMax && !isStopping();) {
      const { all, live } = await events.trimEvents(id, backlogMax, trimRowsMax);
      if (live > 0) onDropped(live);
      dropped = all;
    }
  }
}

/** Records the outcome of a try, and tells whom it concerns. */
async function recordTry(options: EventWorkerOptions, job: EventJob, posted: Posted): Promise<void> {
  const { store, system, onTried, onDropped, onDisabled } = options;
  const outcome = outcomeOfTry(posted);
  const [byte = 0] = system.randomBytes(1);
  let wasEnabled = false;
  let isGivenUp = false;
  const endpoint = await store.events.recordTry(job, (current, now) => {
    wasEnabled = current.disableMs === null;
    const after = afterTry(job.tries, current, outcome, now, byte / 256);
    isGivenUp = outcome === "failed" && after.retry === null;
    return after;
  });
  onTried(outcome, job.endpoint.id, posted);
  if (isGivenUp && endpoint !== undefined && job.event.facts["test"] !== true) onDropped(1);
  if (wasEnabled && endpoint !== undefined && endpoint.disableMs !== null) onDisabled(endpoint);
}

/** Secrets move to the current master key, so that an older one can be dropped. */
async function reseal({ store, system, keys }: EventWorkerOptions): Promise<void> {
  const nonceOf = () => system.randomBytes(secretNonceBytes);
  for (const endpoint of await store.events.readEndpoints()) {
    if (endpoint.kid === keys.current.kid) continue;
    await store.events.changeEndpoint(endpoint.id, (current) => resealed(keys, current, nonceOf));
  }
}
