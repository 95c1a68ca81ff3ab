/**
 * The log lines of refused reports. They say why, so that an operator need not guess whether the secret, the clock or
 * the address is wrong. Anybody can post a report, so there are 10 lines a minute and beyond them the first of each provider
 * and cause, which others must not hide. The first line of the next minute says how many had none.
 */
import type { ForgedCause } from "../delivery/provider.ts";
import type { Telemetry } from "../telemetry.ts";
import { minuteMs } from "../system.ts";

export const linesPerMinute = 10;

/** Makes what writes a line for a refused report, or counts it, and tells which. `now` is a clock that is never set. */
export function createReportLines(
  { refusedReport }: Pick<Telemetry, "refusedReport">,
  now: () => number,
): (provider: string, cause: ForgedCause) => boolean {
  let minute = Number.NEGATIVE_INFINITY;
  let lines = 0;
  let omitted = 0;
  const told = new Set<string>();
  return (provider, cause) => {
    const current = Math.floor(now() / minuteMs);
    if (current !== minute) {
      [minute, lines] = [current, 0];
      told.clear();
    }
    const isFirst = !told.has(`${provider} ${cause}`);
    if (lines >= linesPerMinute && !isFirst) {
      omitted += 1;
      return false;
    }
    lines += 1;
    told.add(`${provider} ${cause}`);
    refusedReport(provider, cause, omitted);
    omitted = 0;
    return true;
  };
}
