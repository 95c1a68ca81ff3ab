/**
 * When a connection has to go.
 */
import type { Connection } from "./connection.ts";

/** When a connection has to go, in milliseconds; precise to a tick, and never early. */
export interface ConnectionLimits {
  /** Without having brought any request. */
  readonly halfOpenMs: number;
  /** Without a call under way, never having brought a valid key. */
  readonly strangerIdleMs: number;
  /** Without a call under way, having brought a valid key. */
  readonly idleMs: number;
  /** For how long a client that has ended its side of a connection is still answered. */
  readonly endedMs: number;
  /** In any case, gracefully; 0 for never. Up to a tenth more, so that connections opened together do not end together. */
  readonly maxAgeMs: number;
  /** From a call's headers until its answer was taken. One that takes longer is cut, whoever dawdles. */
  readonly callMs: number;
  /** So long a newcomer has to bring its key, before it may have to make room for others while there still is some. */
  readonly newcomerMs: number;
  readonly tickMs: number;
  readonly connectionsMax: number;
}

/** An HTTP/1 connection past its age says so with its next answer. One that has none to give goes after so long. */
const lastAnswerMs = 5_000;
/** An HTTP/2 connection that cannot be told in advance ends at the first quiet moment, or after so long without one. */
export const quietMs = 10_000;

export const inTicks = ({ tickMs }: ConnectionLimits, ms: number): number => Math.ceil(ms / tickMs);

/** How long a connection may be without a call under way. */
export function allowedTicks(
  limits: ConnectionLimits,
  { hasBroughtKey, hasBroughtRequest, isRetiring }: Connection,
): number {
  const ms = hasBroughtKey ? limits.idleMs : hasBroughtRequest ? limits.strangerIdleMs : limits.halfOpenMs;
  return inTicks(limits, isRetiring ? Math.min(ms, lastAnswerMs) : ms);
}
