/**
 * The only clock and only source of chance in a browser, for the form and for our own pages, as src/system.ts is the
 * server's. The clock cannot be set: a countdown must not jump when somebody corrects the time of their computer.
 */

/** Milliseconds from an arbitrary zero; never less than an earlier answer. */
export function monotonicMs(): number {
  return performance.now();
}

/** A random name: 32 hexadecimal characters. */
export function uniqueName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
