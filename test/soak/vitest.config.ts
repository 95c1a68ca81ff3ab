import { defineConfig } from "vitest/config";

// Read by the files themselves, before any of them runs: see support/extent.ts.
process.env["OTPD_TESTS"] = "full";
const { default: everyday } = await import("../vitest.config.ts");

/** `npm run test:soak`: the files of `npm test` in full, and then the long runs, one at a time. */
export default defineConfig({
  root: new URL("../..", import.meta.url).pathname,
  test: {
    ...everyday.test,
    projects: [
      ...(everyday.test?.projects ?? []),
      {
        test: {
          name: "soak",
          include: ["test/soak/**/*.test.ts"],
          globalSetup: ["test/support/processes/built.ts"],
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
          retry: 0,
          testTimeout: 3_600_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
