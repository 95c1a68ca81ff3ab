/**
 * Mistakes in what lies at rest: what a thief of the database reads, what cannot be stored, and who else has the file.
 */
import type { Mutant } from "./mutants.ts";

export const atRestMutants: readonly Mutant[] = [
  {
    name: "provider's NUL stored",
    breaks: "PostgreSQL refuses to note the answer, and the text is sent again",
    file: "src/otp/provider-text.ts",
    text: `.replace(unprintable, "\\uFFFD")`,
    replacement: ``,
    suites: ["test/store/postgres.test.ts"],
  },
];
