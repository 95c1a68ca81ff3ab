/**
 * Numbers to send to: valid Dutch mobile numbers, each handed out once, so that no test meets the limits of another's.
 */
let handedOut = 0;

/** A number that no test has used. */
export function newPhone(): string {
  handedOut += 1;
  return `+3161${String(2_000_000 + handedOut)}`;
}

/** A code of the same length that is not this one. */
export function wrongCode(code: string, step = 1): string {
  return String((Number(code) + step) % 10 ** code.length).padStart(code.length, "0");
}
