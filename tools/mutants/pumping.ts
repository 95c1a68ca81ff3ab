/**
 * Mistakes about what the pumping guard counts, and when it acts.
 */
import type { Mutant } from "./mutant.ts";

export const pumpingMutants: readonly Mutant[] = [
  {
    name: "outcome not counted at its prefix",
    breaks: "a block waits for ever for outcomes, and pumping is never noticed",
    place: "src/store/apply.ts#apply",
    text: `countOutcome(unit, after, ref?.prefix);`,
    replacement: ``,
    suites: ["test/simulation/pumping.test.ts"],
  },
  {
    name: "expiry not counted at its prefix",
    breaks: "of codes that nobody types the guard hears nothing",
    place: "src/store/sweep.ts#run",
    text: `countOutcome(unit, expired, phoneOf?.(expired).prefix);`,
    replacement: ``,
    suites: ["test/simulation/pumping.test.ts"],
  },
  {
    name: "outcome counted with every change",
    breaks: "one send fills a block by itself",
    place: "src/store/apply.ts#apply",
    text: `if (before?.state === "PENDING" && after !== undefined`,
    replacement: `if (after !== undefined`,
    suites: ["test/simulation/pumping.test.ts"],
  },
  {
    name: "fourth probe",
    breaks: "a blocked prefix takes more than its probes",
    place: "src/otp/limits/pumping-guard.ts#judgeSend",
    text: `record.sent >= probesMax`,
    replacement: `record.sent > probesMax`,
    suites: ["test/simulation/pumping.test.ts"],
  },
  {
    name: "what would be refused counts",
    breaks: "a guard that observes sees something else than one that enforces",
    place: "src/otp/decisions/spending.ts#askGuard",
    text: `if (mode === "observe") return { admitted: true, tally: "none", writes };`,
    replacement: `if (mode === "observe") return { admitted: true, tally: "block", writes };`,
    suites: ["test/simulation/pumping.test.ts"],
  },
  {
    name: "guard without force",
    breaks: "what the guard blocks is sent all the same",
    place: "src/otp/decisions/spending.ts#askGuard",
    text: `if (mode === "observe")`,
    replacement: `if (mode.length > 0)`,
    suites: ["test/simulation/pumping.test.ts"],
  },
  {
    name: "doubling forgotten by luck",
    breaks: "a pump that gets one code typed in seven rounds of probes starts anew with an hour",
    place: "src/otp/limits/pumping-guard.ts#recordOutcome",
    text: `...clean, ...noneRefused }`,
    replacement: `...clean, ...noneRefused, trips: 0 }`,
    suites: ["test/otp/limits/pumping-guard.test.ts"],
  },
  {
    name: "refusals counted without end",
    breaks: "one address with a page's key adds 86,400 a day to what the guard has saved",
    place: "src/otp/decisions/spending.ts#askGuard",
    text: `(!isBeyond || judgment.change.decisions.length > 0)`,
    replacement: `true`,
    suites: ["test/server/pumping.test.ts"],
  },
];
