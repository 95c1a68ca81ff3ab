/**
 * Files of a project share their processes. What a file stubs in the environment ends with it.
 */
import { afterAll, vi } from "vitest";

afterAll(() => {
  vi.unstubAllEnvs();
});
