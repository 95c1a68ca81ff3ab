/**
 * The part of the store port that keeps endpoints, and events until they are taken. The act that an event tells of
 * writes it, in the same transaction, once for each of its tenant's endpoints that ask for its type and are not
 * disabled. The promises of store.ts hold here too. Order is not kept.
 */
import type { AuditNote } from "../otp/operators/audit.ts";
import type { AfterTry, Endpoint } from "../otp/operators/endpoint.ts";
import type { OwedEvent } from "../otp/decisions/event.ts";
import type { Instant } from "../system.ts";

/** An event in hand: claimed for one endpoint, and its try to be recorded before its lease (`dueMs`) ends. */
export interface EventJob {
  readonly event: OwedEvent;
  readonly endpoint: Endpoint;
  /** Tries that came to an end before this one. */
  readonly tries: number;
  readonly dueMs: Instant;
}

export interface EventClaim {
  readonly max: number;
  /** No more than so many of any one endpoint. */
  readonly perEndpointMax: number;
  /** Endpoints to leave alone. */
  readonly busy: readonly string[];
}

export interface Endpoints {
  /** Adds an endpoint; "no-tenant" if its tenant is not there, "full" if that has `max` of them. */
  addEndpoint(endpoint: Endpoint, max: number, note?: AuditNote): Promise<"added" | "no-tenant" | "full">;
  /**
   * Changes an endpoint to what `change` makes of it; false if there is none with this id. Servers take it up with their
   * next call. `change` is pure and may be run again. Where it gives the very
   * endpoint that it was given, nothing is noted.
   */
  changeEndpoint(
    id: string,
    change: (endpoint: Endpoint, now: Instant) => Endpoint,
    note?: AuditNote,
  ): Promise<boolean>;
  /** Removes an endpoint and what waits for it; false if there is none with this id. */
  removeEndpoint(id: string, note?: AuditNote): Promise<boolean>;
  findEndpoint(id: string): Promise<Endpoint | undefined>;
  /** All endpoints of all tenants, oldest first. */
  readEndpoints(): Promise<Endpoint[]>;
  /** One, with what waits for it; undefined if there is none with this id. */
  readQueue(id: string): Promise<EndpointQueue | undefined>;
  /** The same of all: read beside the calls (`Engine.longRead`), and rejects where there is too much to count. */
  listEndpoints(): Promise<EndpointQueue[]>;
}

/** An endpoint, and the events that wait for it. */
export interface EndpointQueue {
  readonly endpoint: Endpoint;
  readonly waiting: number;
  /** Absent while none waits. */
  readonly queue?: {
    readonly oldestMs: Instant;
    /** Of the event that has had most. */
    readonly tries: number;
    readonly nextTryMs: Instant;
  };
}

export interface Events {
  /**
   * Claims events that are due, each for one worker alone; maybe not all, when others claim at the same moment. Those whose
   * endpoint is disabled or gone, or whose tenant is disabled, are dropped instead.
   */
  claimEvents(claim: EventClaim): Promise<EventJob[]>;
  /**
   * Decides what a try means, with the endpoint as it is now. Resolves with its new form, or with undefined when the event
   * is no longer claimed by this very claim or its endpoint is gone: then nothing is written. `decide` is pure.
   */
  recordTry(job: EventJob, decide: (endpoint: Endpoint, now: Instant) => AfterTry): Promise<Endpoint | undefined>;
  /** Gives claimed events back, due at once, their tries as before. Those no longer claimed by this claim are left alone. */
  releaseEvents(jobs: readonly EventJob[]): Promise<void>;
  /** When the next event is due, or undefined when none is. */
  nextEventDue(): Promise<Instant | undefined>;
  /** How many events wait, for whatever endpoint, those in a worker's hand included; at most `max`. */
  countEvents(max: number): Promise<number>;
  /** The ids of endpoints for which more than `backlogMax` events wait. */
  longBacklogs(backlogMax: number): Promise<string[]>;
  /**
   * Drops up to `rowsMax` of the events beyond `backlogMax` that wait for an endpoint: those of test keys first, and then the
   * oldest. Tells how many, and how many of them were of live keys.
   */
  trimEvents(
    endpointId: string,
    backlogMax: number,
    rowsMax: number,
  ): Promise<{ readonly all: number; readonly live: number }>;
}

export interface EventStore extends Endpoints, Events {}
