/** A connection that is lost without a word keeps those waiting whose look-up is on it, and the others for half a second. */
import { expect, onTestFinished, test, vi } from "vitest";
import { LookUps } from "../../src/store/postgres/look-ups.ts";

test("a read that hangs holds up the others for half a second, and no more than one is left so", async () => {
  const hanging: (() => void)[] = [];
  const names: unknown[] = [];
  const lookUps = new LookUps<{ readonly name: unknown }>(
    {
      async query<Row>(_: unknown, [name]: readonly unknown[]) {
        names.push(name);
        if (String(name).startsWith("hang")) await new Promise<void>((resolve) => hanging.push(resolve));
        return [{ name }] as Row[];
      },
    },
    { name: "all", text: "" },
    { name: "one", text: "" },
  );
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const first = lookUps.read("hang 1");
  const second = lookUps.read("well");
  await vi.advanceTimersByTimeAsync(499);
  expect(names).toEqual(["hang 1"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(await second).toEqual([{ name: "well" }]);
  // At once now.
  expect(await lookUps.read("well")).toEqual([{ name: "well" }]);
  const third = lookUps.read("hang 2");
  const fourth = lookUps.read("late");
  await vi.advanceTimersByTimeAsync(5_000);
  expect(names).toEqual(["hang 1", "well", "well", "hang 2"]);
  hanging[1]?.();
  expect(await Promise.all([third, fourth])).toEqual([[{ name: "hang 2" }], [{ name: "late" }]]);
  hanging[0]?.();
  expect(await first).toEqual([{ name: "hang 1" }]);
});
