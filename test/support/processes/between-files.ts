/**
 * Files of a project share their processes. What a file stubs, in the environment or the clock, ends with it.
 */
import { afterAll, vi } from "vitest";

afterAll(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
  vi.restoreAllMocks();
});
