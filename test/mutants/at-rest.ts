/**
 * Mistakes in what lies at rest: what a thief of the database reads, what cannot be stored, and who else has the file.
 */
import type { Mutant } from "./mutants.ts";

const databaseFile = "src/store/database-file.ts";

export const atRestMutants: readonly Mutant[] = [
  {
    name: "provider's NUL stored",
    breaks: "PostgreSQL refuses to note the answer, and the text is sent again",
    file: "src/otp/provider-text.ts",
    text: `.replace(unprintable, "\\uFFFD")`,
    replacement: ``,
    suites: ["test/store/postgres.test.ts"],
  },
  {
    name: "lock beside the link",
    breaks: "a second server serves the same file, and restore takes it away under a server",
    file: databaseFile,
    text: `    return realpathSync.native(path);`,
    replacement: `    return path;`,
    suites: ["test/store/database-file.test.ts"],
  },
  {
    name: "hard link opened",
    breaks: "two servers write to one file, each with a log of its own, and destroy it",
    file: databaseFile,
    text: `found.nlink <= 1`,
    replacement: `found.nlink > 0`,
    suites: ["test/store/database-file.test.ts"],
  },
];
