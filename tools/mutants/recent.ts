/**
 * Mistakes about what the stores hold in memory of a database: rows of the last moments on SQLite, the work of a batch on
 * PostgreSQL.
 */
import type { Mutant } from "./mutants.ts";

const suites = ["test/store/recent.test.ts"];

export const recentMutants: readonly Mutant[] = [
  {
    name: "others' writes are not seen",
    breaks: "the server decides about rows as they were before the command line changed them",
    place: "src/store/sqlite/engine.ts#onBegin",
    text: `onBegin: () => this.#forgetIfOthersWrote(),`,
    replacement: `onBegin: () => {},`,
    suites,
  },
  {
    name: "what was taken back is remembered",
    breaks: "an attempt that was never committed counts, and one that was is forgotten",
    place: "src/store/sqlite/engine.ts#onUndo",
    text: `onUndo: () => this.#unit.forget(),`,
    replacement: `onUndo: () => {},`,
    suites,
  },
  {
    name: "what a sweep ended is remembered as pending",
    breaks: "an erased salt stays in memory, and its code works",
    place: "src/store/sqlite/unit-of-work.ts##remember",
    text: `else this.#verifications.delete(verification.id);`,
    replacement: ``,
    suites,
  },
  {
    name: "changed phones are forgotten with the rest",
    breaks: "a phone that was forgotten within its batch gets an SMS too many",
    place: "src/store/sqlite/phone-states.ts##stateOf",
    text: `let state = this.#used.get(key);`,
    replacement: `let state: PhoneState | undefined;`,
    suites,
  },
  {
    name: "phones of a sweep are remembered",
    breaks: "a bucket that was deleted counts on",
    place: "src/store/sqlite/unit-of-work.ts#forgetDeleted",
    text: `this.#phones.forget();`,
    replacement: ``,
    suites: ["test/store/sqlite.test.ts"],
  },
  {
    name: "a journal that is not read",
    breaks: "a crash takes what was counted at prefixes with it",
    place: "src/store/sqlite/prefix-journal.ts##read",
    text: `this.#waiting.set(prefixKey(entry.name), entry)`,
    replacement: `void entry`,
    suites: ["test/store/sqlite-prefixes.test.ts"],
  },
  {
    name: "what has changed since is cut off the journal",
    breaks: "a count that came while rows were brought up to date is gone after a crash",
    place: "src/store/sqlite/prefix-journal.ts##goOn",
    text: `this.#sql.deletePrefixChanges.run(round.lastId);`,
    replacement: `this.#sql.deletePrefixChanges.run(this.#lastId);`,
    suites: ["test/store/sqlite-prefixes.test.ts"],
  },
  {
    name: "half an act is committed",
    breaks: "an act that failed half way is there in part",
    place: "src/store/postgres/batches.ts#performed",
    text: `if (unit.changesMade !== changesMade) throw new HalfDone(error);`,
    replacement: ``,
    suites: ["test/store/postgres.test.ts"],
  },
];
