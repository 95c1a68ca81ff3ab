/**
 * What becomes of messages to a destination, in a sentence for people: what the lists say, or else the guard.
 */
import type { Destination } from "../../otp/verification/destination.ts";
import { probesMax, type GuardMode } from "../../otp/limits/pumping-guard.ts";
import { timeOf } from "../../system.ts";
import type { PrefixReport } from "./prefixes.ts";

/** Begins where the sentence's subject ends: after the prefix. Pure. */
export function guardSentence({ record, isDue }: PrefixReport, mode: GuardMode): string {
  const observed = mode === "observe" ? " It only observes (OTP_FRAUD_GUARD=observe), so nothing is refused." : "";
  if (record.phase === "open") return `the guard lets its sends through.${observed}`;
  if (record.phase === "half-open") {
    const blocks = mode === "observe" ? "would block" : "blocks";
    return `the guard lets ${probesMax} sends through as probes, and ${blocks} all others until a code of them is typed.${observed}`;
  }
  if (isDue) return `the guard's block is over, and the next ${probesMax} sends are probes.${observed}`;
  return `the guard blocks it until ${timeOf(record.untilMs)}, ${ordinal(record.trips)} time in a row.${observed}`;
}

/** What an entry says; its prefix is as it is to be told. Pure. */
export function entrySentence({ prefix, verdict, note, createMs }: Destination): string {
  const why = note === "" ? "" : ` (${note})`;
  const what = verdict === "block" ? "nothing is sent" : "the guard is not asked";
  return `The entry ${prefix}${why} of the lists ${verdict}s it since ${timeOf(createMs)}: ${what}.`;
}

function ordinal(count: number): string {
  return ["the first", "the second", "the third"][count - 1] ?? `the ${count}th`;
}
