/**
 * What must hold of the pumping guard after every step (I16): each send that counts is counted once as sent and once as
 * ended, whatever its end was; and what the guard refuses is not sent.
 */
import { blockSends, probesMax, type PrefixRecord } from "../../src/otp/limits/pumping-guard.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import { storedPrefixes } from "../support/databases/prefixes.ts";
import { hold } from "./violation.ts";
import type { World } from "./world.ts";

/** Looks at every prefix. `phoneOf` tells the number of a verification in the database. */
export function inspectPrefixes(world: World, verifications: Iterable<Verification>, phoneOf: (id: string) => string) {
  const waiting = new Map<string, Verification[]>();
  for (const v of verifications) {
    const isJudged = v.tally !== "none";
    const isExempt = v.knownUser || world.exempt.has(v.id);
    hold(!isExempt || !isJudged, "I16", "a send of a known user, or to an allowed number, is not judged");
    hold(isExempt || isJudged || world.policy.fraudGuard === "observe", "I16", "what the guard refuses is not sent");
    if (v.tally !== "block" || v.state !== "PENDING") continue;
    const prefix = phoneOf(v.id).slice(0, -4);
    waiting.set(prefix, [...(waiting.get(prefix) ?? []), v]);
  }
  for (const { name, record } of storedPrefixes(world.db)) {
    inspectCounts(record);
    const open = (waiting.get(name.prefix) ?? []).filter(({ createMs }) => createMs >= record.sinceMs).length;
    const owed = record.sent - record.ended;
    const isExact = record.phase === "tripped" || open === owed;
    hold(isExact, "I16", `${owed} outcomes are to come of ${open} pending sends, ${record.phase}`);
  }
}

function inspectCounts({ phase, sent, ended, verified, beyondSent, beyondVerified }: PrefixRecord): void {
  const sentMax = { open: blockSends, tripped: 0, "half-open": probesMax }[phase];
  const isSound = sent <= sentMax && ended <= sent && verified <= ended && beyondVerified <= beyondSent;
  hold(isSound, "I16", `${verified} of ${ended} of ${sent}, ${beyondVerified} of ${beyondSent}, ${phase}`);
}
