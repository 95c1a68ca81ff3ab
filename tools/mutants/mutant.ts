/**
 * One mistake that somebody could make, and where it is looked for.
 */
import type { Change } from "./places.ts";

export interface Mutant extends Change {
  readonly name: string;
  /** What would go wrong in the world. */
  readonly breaks: string;
  /** The tests that it is looked for in; the simulation unless given. */
  readonly suites?: readonly string[];
}
