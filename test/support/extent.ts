/**
 * How much the tests do. `npm test` shows every promise once, within minutes; `npm run test:soak` sets OTPD_TESTS=full, and
 * runs the same files in full: more seeds, kills and callers, and every row of the tables that `npm test` samples.
 */

export const isFull = process.env["OTPD_TESTS"] === "full";

/** A count, a short one in `npm test`. */
export const extent = (short: number, full: number): number => (isFull ? full : short);

/** Of many like cases, in full all of them, else the first and every `nth` after it. */
export const sampled = <T>(cases: readonly T[], nth: number): T[] =>
  isFull ? [...cases] : cases.filter((_, at) => at % nth === 0);
