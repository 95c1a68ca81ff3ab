import { defineConfig } from "vitest/config";
import { isFull } from "./support/extent.ts";
import { makeScratchFolder } from "./support/processes/scratch-folder.ts";

// What the processes of otpd run that the tests start.
const built = "test/support/processes/built.ts";

// Some of them run the sources, and would each strip and compile the same files.
process.env["NODE_COMPILE_CACHE"] ??= new URL("../node_modules/.cache/compile", import.meta.url).pathname;

// Each process makes its folders where this says.
const scratch = makeScratchFolder();
if (scratch !== undefined) process.env["TMPDIR"] = scratch;

// Of no promise of the service, and half a minute of CPU: `npm run test:soak` alone runs them.
const ofTools = isFull ? [] : ["tools/bench/bench.test.ts", "tools/measure.test.ts"];

// They change what their whole process goes by: which certificates it trusts.
const changers = ["test/delivery/{provider,http}/*.test.ts"];

// Tests wait for what is to happen, not for so long: these bounds are for what never happens, on the slowest machine. A volley
// through four instances takes 10 s, and took more than 180 where 40 others were ready to run for each core.
const everywhere = {
  root: new URL("..", import.meta.url).pathname,
  retry: 0,
  testTimeout: 900_000,
  hookTimeout: 900_000,
  expect: { poll: { timeout: 600_000, interval: 20 } },
};

export default defineConfig({
  test: {
    // On two cores: most tests wait, for a clock or a process, and two more fill what they leave.
    maxWorkers: 4,
    projects: [
      // Pure rules share their processes: to start one costs more than most of these files.
      { test: { ...everywhere, name: "rules", include: ["test/otp/**/*.test.ts"], isolate: false } },
      {
        // A process for each of the workers, not for each file: to load the service costs as much as most files do.
        test: {
          ...everywhere,
          name: "sqlite",
          include: ["{test,tools}/**/*.test.ts"],
          exclude: ["test/soak/**", "test/otp/**", "test/postgres/**", ...changers, ...ofTools],
          globalSetup: [built],
          isolate: false,
        },
      },
      { test: { ...everywhere, name: "alone", include: changers, globalSetup: [built] } },
      {
        // What is promised on SQLite, once more on PostgreSQL; and what many instances and a network can break.
        test: {
          ...everywhere,
          name: "postgres",
          include: ["test/server/{scenarios,races,stolen}.test.ts", "test/postgres/**/*.test.ts"],
          globalSetup: [built, "test/support/databases/project-database.ts"],
        },
      },
    ],
  },
});
