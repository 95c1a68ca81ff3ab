/**
 * Mistakes about what the stores hold in memory of a database: rows of the last moments on SQLite, the work of a batch on
 * PostgreSQL.
 */
import type { Mutant } from "./mutant.ts";

const suites = ["test/store/recent.test.ts"];

export const recentMutants: readonly Mutant[] = [
  {
    name: "others' writes are not seen",
    breaks: "the server decides about rows as they were before the command line changed them",
    place: "src/store/sqlite/unit-of-work.ts#begin",
    text: `this.forgetIfOthersWrote();`,
    replacement: ``,
    suites,
  },
  {
    name: "what was taken back is remembered",
    breaks: "an attempt that was never committed counts, and one that was is forgotten",
    place: "src/store/sqlite/group-commit.ts##runTogether",
    text: `this.#unit.forget();`,
    replacement: ``,
    suites,
  },
  {
    name: "what a sweep ended is remembered as pending",
    breaks: "an erased salt stays in memory, and its code works",
    place: "src/store/sqlite/unit-of-work.ts##change",
    text: `else this.#verifications.delete(verification.id);`,
    replacement: ``,
    suites,
  },
  {
    name: "changed phones are forgotten with the rest",
    breaks: "a phone that was forgotten within its batch gets an SMS too many",
    place: "src/store/sqlite/phone-states.ts##stateOf",
    text: `let state = this.#used.get(key);`,
    replacement: `let state: KeptState | undefined;`,
    suites,
  },
  {
    name: "phones of a sweep are remembered",
    breaks: "a bucket that was deleted counts on",
    place: "src/store/sqlite/unit-of-work.ts#forgetDeleted",
    text: `this.phones.forget();`,
    replacement: ``,
    suites: ["test/store/sqlite.test.ts"],
  },
  {
    name: "a phone with two homes",
    breaks: "wrong codes that were forgiven count again once the latest verification is deleted",
    place: "src/store/sqlite/phone-states.ts#moveTo",
    text: `if (state.home !== undefined) this.#left.add(state.home);`,
    replacement: ``,
    suites: ["test/store/phone-homes.test.ts"],
  },
  {
    name: "a phone goes with its verification",
    breaks: "after 72 hours nobody remembers a number's wrong codes",
    place: "src/store/sqlite/sweep.ts#deleteForgettable",
    text: `moveOut(sql, ended, horizon.now);`,
    replacement: ``,
    suites: ["test/store/sqlite.test.ts"],
  },
  {
    name: "a phone's rows stay where it has moved from",
    breaks: "what counts of a phone is in two places, and the older one wins",
    place: "src/store/sqlite/phone-states.ts#write",
    text: `if (state.rows.size > 0 || state.hasHistoryRow) this.#deleteRows(state, state.rows, state.hasHistoryRow);`,
    replacement: ``,
    suites: ["test/store/phone-homes.test.ts"],
  },
  {
    name: "phones are not copied",
    breaks: "limits and wrong codes start afresh with the move to PostgreSQL",
    place: "src/store/move/copy.ts#copyToPostgres",
    text: `if (movedFrom(db) === undefined) moveAllOut(prepareStatements(db));`,
    replacement: ``,
    suites: ["test/postgres/copy.test.ts"],
  },
  {
    name: "open attempts of the same batch unseen",
    breaks: "sends that arrive together all get short codes",
    place: "src/store/sqlite/unit-of-work.ts#openAttempts",
    text: `if (this.#changedPhones.has(keyOf(index))) this.#writeVerifications();`,
    replacement: ``,
    suites: ["test/store/sqlite.test.ts"],
  },
  {
    name: "a journal that is not read",
    breaks: "a crash takes what was counted at prefixes with it",
    place: "src/store/sqlite/prefix-journal.ts#journaled",
    text: `latest.set(prefixKey(entry.name), entry)`,
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
    name: "the journal is cut before all rows are there",
    breaks: "a crash between two batches of a round takes counts with it",
    place: "src/store/sqlite/prefix-journal.ts##goOn",
    text: `if (round.done < round.keys.length) return;`,
    replacement: `if (round.done < round.keys.length) return void this.#sql.deletePrefixChanges.run(round.lastId);`,
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
