/**
 * 600 conversations of HTTP/2 frames that no client would send, at the real server. A failing run is made again by its
 * seed; the soak has 30,000.
 */
import { expect, test } from "vitest";
import { fireFrames } from "./frames.ts";

test("frames in any order, left or broken off anywhere, end no process and keep nobody from being served", async () => {
  const { faults, served, exitCode } = await fireFrames(1, 600);
  expect(faults).toEqual([]);
  expect(served).toBe(600 / 100);
  expect(exitCode).toBe(0);
});
