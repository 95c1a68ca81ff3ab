/**
 * Mistakes in what lies at rest: what a thief of the database reads, what cannot be stored, who else has the file, and how long its
 * log gets.
 */
import type { Mutant } from "./mutant.ts";

export const atRestMutants: readonly Mutant[] = [
  {
    name: "provider's NUL stored",
    breaks: "PostgreSQL refuses to note the answer, and the text is sent again",
    place: "src/otp/message/provider-text.ts#cleaned",
    text: `.replace(unprintable, "\\uFFFD")`,
    replacement: ``,
    suites: ["test/store/postgres.test.ts"],
  },
  {
    name: "bare digest stored",
    breaks: "a thief of the database tries every number in Idempotency-Keys",
    place: "src/otp/verification/idempotency.ts#slotsUnder",
    text: `...keys.all.map((key) => hmac(key.idempotencySlot, bare).subarray(0, nameBytes)), bare`,
    replacement: `bare, ...keys.all.map((key) => hmac(key.idempotencySlot, bare).subarray(0, nameBytes))`,
    suites: ["test/server/stolen.test.ts"],
  },
  {
    name: "bare digests left at the start",
    breaks: "what an earlier version stored can be tried for a day more",
    place: "src/main.ts#startService",
    text: `    await keyThrough(store, slotOf);`,
    replacement: ``,
    suites: ["test/server/stolen.test.ts"],
  },
  {
    name: "bare digest not looked up",
    breaks: "a repeat of a call that an instance of an earlier version answered texts again",
    place: "src/otp/verification/idempotency.ts#slotsUnder",
    text: `subarray(0, nameBytes)), bare],`,
    replacement: `subarray(0, nameBytes))],`,
    suites: ["test/store/sqlite.test.ts"],
  },
  {
    name: "lock by the keyed name",
    breaks: "instances in the middle of a rotation send twice for one Idempotency-Key",
    place: "src/store/postgres/load.ts#load",
    text: `slot?.digest));`,
    replacement: `slot?.names[0]));`,
    suites: ["test/store/postgres.test.ts"],
  },
  {
    name: "demo without its token",
    breaks: "a stranger behind a proxy that rewrites Host gets the demo's key and the codes in its inbox",
    place: "src/server/pages/demo.ts#guarded.answer",
    text: `timingSafeEqual(digest(brought), expected))) return answer;`,
    replacement: `timingSafeEqual(digest(brought), expected)) || brought !== 0) return answer;`,
    suites: ["test/demo/demo.test.ts"],
  },
  {
    name: "lock beside the link",
    breaks: "a second server serves the same file, and restore takes it away under a server",
    place: "src/store/sqlite/database-file.ts#realPath",
    text: `    return realpathSync.native(path);`,
    replacement: `    return path;`,
    suites: ["test/store/database-file.test.ts"],
  },
  {
    name: "hard link opened",
    breaks: "two servers write to one file, each with a log of its own, and destroy it",
    place: "src/store/sqlite/database-file.ts#otherNames",
    text: `found.nlink <= 1`,
    replacement: `found.nlink > 0`,
    suites: ["test/store/database-file.test.ts"],
  },
  {
    name: "log never copied",
    breaks: "SQLite's log grows until the disk is full",
    place: "src/store/sqlite/checkpoints.ts#committed",
    text: `} else if (grownPages >= pages) {`,
    replacement: `} else if (grownPages < 0) {`,
    suites: ["test/store/checkpoints.test.ts"],
  },
  {
    name: "rest of the log never copied",
    breaks: "SQLite's log is never begun anew, and grows until the disk is full",
    place: "src/store/sqlite/checkpoints.ts##copyRest",
    text: `attempt(this.#copy);`,
    replacement: ``,
    suites: ["test/store/checkpoints.test.ts"],
  },
];
