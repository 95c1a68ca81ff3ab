/**
 * The tests' own programs, bundled as the server is: to strip the types of some 250 files costs a start 1.5 s of CPU.
 */
import { join } from "node:path";

const root = join(import.meta.dirname, "../../..");

/** Where they are bundled to before the tests run, from the root; see built.ts. */
export const programsFolder = "node_modules/.cache/programs";

/** What each is made of, by its path there without an ending. */
export const sources = {
  "src/crashing": "test/support/processes/crashing.ts",
  "src/volley": "test/support/clients/volley.ts",
} as const;

/** Where a program lies. */
export const programAt = (name: keyof typeof sources): string => join(root, programsFolder, `${name}.js`);
