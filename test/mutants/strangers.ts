/**
 * Mistakes about what somebody without a secret key may have.
 */
import type { Mutant } from "./mutants.ts";

export const strangerMutants: readonly Mutant[] = [
  {
    name: "metrics by any name",
    breaks: "a site that points its name at 127.0.0.1 reads the metrics by the browser of somebody on the machine",
    file: "src/server/operations.ts",
    text: `!(isOurs && isOwnName(named?.toString()))`,
    replacement: `!isOurs`,
    suites: ["test/server/operations.test.ts"],
  },
];
