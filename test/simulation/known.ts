/**
 * What the simulation knows of a verification beside what the database says of it.
 */
import type { Verification } from "../../src/otp/verification/verification.ts";

export interface Known {
  readonly phone: string;
  readonly lane: string;
  readonly code: string;
  /** As it was opened. */
  readonly first: Verification;
  /** As the database held it at the last look. */
  last: Verification;
  /** Guesses that were told to be compared, and those of which no answer came. */
  sure: number;
  maybe: number;
  successes: number;
  isVerified: boolean;
  /** Attempts left, as callers were told. */
  readonly leftSeen: Set<number>;
  /** Messages opened, which of them were proven unsent, and how many resends were taken back for it. */
  messages: number;
  readonly copies: Map<number, "owed" | "unsent">;
  withdrawn: number;
  /** Provider calls made. */
  calls: number;
  readonly disturbancesBefore: number;
  /** Provider calls not yet over, and what had gone wrong when they began. */
  inFlight: number[];
}
