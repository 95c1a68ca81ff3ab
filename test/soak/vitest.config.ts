import { defineConfig } from "vitest/config";

/** Long runs, one at a time: `npm run test:soak`. */
export default defineConfig({
  root: new URL("../..", import.meta.url).pathname,
  test: {
    include: ["test/soak/**/*.test.ts"],
    maxWorkers: 1,
    retry: 0,
    testTimeout: 3_600_000,
    hookTimeout: 60_000,
  },
});
