import { defineConfig } from "vitest/config";

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/soak/**"],
    // Two cores: a third process would only make the others late.
    maxWorkers: 2,
    retry: 0,
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
