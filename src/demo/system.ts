/**
 * The only clock of our own pages in the browser, as src/system.ts is the server's. It cannot be set: what counts time must not
 * jump when somebody corrects the time of their computer.
 */

/** Milliseconds from an arbitrary zero; never less than an earlier answer. */
export function monotonicMs(): number {
  return performance.now();
}
