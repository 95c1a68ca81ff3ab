/**
 * Mistakes about the move from SQLite to PostgreSQL: what could be lost on the way, or used on both sides.
 */
import type { Mutant } from "./mutant.ts";

const faults = ["test/postgres/copy.test.ts"];
const installation = ["test/postgres/copied-installation.test.ts"];

export const copyMutants: readonly Mutant[] = [
  {
    name: "copy beside a server",
    breaks: "what the server writes from then on is lost, used codes among it",
    place: "src/store/move/copy.ts#copyToPostgres",
    text: "lockFile(`${file}.lock`, 0)",
    replacement: "lockFile(`${file}.copy`, 0)",
    suites: installation,
  },
  {
    name: "copy beside a command",
    breaks: "a key that is revoked meanwhile works on the other side",
    place: "src/store/move/copy.ts#copyToPostgres",
    text: `db.exec("BEGIN IMMEDIATE");`,
    replacement: `db.exec("BEGIN");`,
    suites: faults,
  },
  {
    name: "copy to a database in use",
    breaks: "two installations' keys and limits are mixed",
    place: "src/store/move/copy.ts#occupiedTable",
    text: `if (found.length > 0) return table;`,
    replacement: `if (found.length > 1_000_000) return table;`,
    suites: faults,
  },
  {
    name: "copy in many transactions",
    breaks: "a copy that breaks off leaves a part behind, which a server would take for all there is",
    place: "src/store/move/copy.ts#copyRows",
    text: `      await transaction.query(insert, asColumns(batch));`,
    replacement: `      await transaction.query(insert, asColumns(batch));
      await transaction.query(once("COMMIT"), []);
      await transaction.query(once("BEGIN"), []);`,
    suites: faults,
  },
  {
    name: "copy uncounted",
    breaks: "rows that did not arrive are noticed when they are missed",
    place: "src/store/move/copy.ts#compare",
    text: `if (arrived !== rows) throw`,
    replacement: `if (arrived > rows) throw`,
    suites: faults,
  },
  {
    name: "copy to a slow clock",
    breaks: "codes that have expired live again",
    place: "src/store/move/copy.ts#refuseEarlierClock",
    text: `if (seen <= now) return now;`,
    replacement: `if (seen <= now || now > 0) return now;`,
    suites: faults,
  },
  {
    name: "copy of what it knows alone",
    breaks: "a table of a later version is left behind without a word",
    place: "src/store/move/copy.ts#plan",
    text: `if (unknown.length > 0) throw`,
    replacement: `if (unknown.length > 99) throw`,
    suites: faults,
  },
  {
    name: "copy not marked",
    breaks: "a server on the old file verifies codes that were used on the new database",
    place: "src/store/move/copy.ts#copy",
    text: `      markMoved(db, {`,
    replacement: `      if (now < 0) markMoved(db, {`,
    suites: faults,
  },
  {
    name: "copy marked for those who look",
    breaks: "a command that had opened the file before revokes a key where nobody sees it",
    place: "src/store/sqlite/moved.ts#markMoved",
    text: `for (const table of tables) {`,
    replacement: `for (const table of tables.slice(99)) {`,
    suites: faults,
  },
  {
    name: "lost commit of a copy taken for none",
    breaks: "the file goes on being used beside the copy that was made",
    place: "src/store/move/copy.ts#wasCommitted",
    text: `return (await occupiedTable(transaction)) !== undefined;`,
    replacement: `return (await occupiedTable(transaction)) === "none";`,
    suites: faults,
  },
  {
    name: "copy in doubt not marked",
    breaks: "the file goes on being used beside a copy that may have been made",
    place: "src/store/move/copy.ts#wasCommitted",
    text: `    // Marked, so that it is not used on both sides; a marked file can be copied again.
    db.exec("COMMIT");`,
    replacement: ``,
    suites: faults,
  },
  {
    name: "copy shows the password",
    breaks: "the password is in terminals and logs",
    place: "src/store/postgres/connections.ts#withoutCredentials",
    text: "return `postgres://${host}${pathname}`;",
    replacement: "return url + host + pathname;",
    suites: installation,
  },
];
