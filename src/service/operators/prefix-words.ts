/**
 * What becomes of messages to a destination, in a sentence for people: what the lists say, or else the guard.
 */
import type { Destination } from "../../otp/verification/destination.ts";
import { probesMax, type GuardMode } from "../../otp/limits/pumping-guard.ts";
import { timeOf } from "../../system.ts";
import type { PrefixReport } from "./prefixes.ts";

/** Begins where the sentence's subject ends: after the prefix. Pure. */
export function guardSentence({ record, isDue }: PrefixReport, mode: GuardMode): string {
  const observed = mode === "observe" ? " It only observes, so nothing is refused." : "";
  if (record.phase === "open") return `${openClause(record, mode)}${observed}`;
  const blocks = mode === "observe" ? "would block" : "blocks";
  if (record.phase === "half-open") {
    return `the guard lets ${probesMax} sends through as probes, and ${blocks} all others until a code of them is typed.${observed}`;
  }
  if (isDue) return `the guard's block is over, and the next ${probesMax} sends are probes.${observed}`;
  return `the guard ${blocks} it until ${timeOf(record.untilMs)}, ${ordinal(record.trips)} time in a row.${observed}`;
}

function openClause({ refused, refusedLastMs }: PrefixReport["record"], mode: GuardMode): string {
  if (refused === 0) return "the guard lets its sends through.";
  const [limits, was, were] =
    mode === "enforce" ? ["limits", "was", "were"] : ["would limit", "would have been", "would have been"];
  const sends = refused === 1 ? `1 send beyond that ${was}` : `${refused} sends beyond that ${were}`;
  return `the guard ${limits} how many sends it takes before their codes are typed; ${sends} refused, the latest at ${timeOf(refusedLastMs)}.`;
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
