import { expect, test } from "vitest";
import type { Guesses } from "../../../src/otp/verification/spraying.ts";
import { createSprayingWatch, createUsual } from "../../../src/service/operators/spraying-watch.ts";
import { StoreUnavailable } from "../../../src/store/store.ts";
import { Machine, turn } from "../../simulation/machine.ts";
import { policy as defaults } from "../../support/data/examples.ts";
import { ofOneMind } from "../../support/service/tenants.ts";

const lookMs = 15_000;

/** A watch on guesses that a test sets, and what it told. */
function watching(policy = defaults, usual?: number) {
  const machine = new Machine();
  const guesses = new Map<string, Guesses>();
  const [warnings, faults]: [string[], unknown[]] = [[], []];
  const looks: number[] = [];
  const fixture = { guesses, warnings, faults, looks, isDown: false };
  const watch = createSprayingWatch({
    store: {
      async readGuesses() {
        if (fixture.isDown) throw new StoreUnavailable("down");
        return guesses;
      },
    },
    system: machine,
    tenantOf: ofOneMind(policy),
    warn: (message) => void warnings.push(message),
    onFault: (error) => void faults.push(error),
    onLook: (tenants) => void looks.push(tenants),
    ...(usual === undefined ? {} : { usualOf: async () => usual }),
  });
  const look = async () => {
    machine.pass(lookMs);
    machine.runDue();
    await turn();
  };
  return Object.assign(fixture, { watch, look });
}

test("guessing at many phones is told once when it begins and once when it is over, with its numbers", async () => {
  const { watch, look, guesses, warnings } = watching();
  guesses.set("shop", { wrong: 199, right: 3 });
  guesses.set("bank", { wrong: 900, right: 9_000 });
  watch.start();
  await look();
  expect(warnings).toEqual([]);
  guesses.set("shop", { wrong: 240, right: 12 });
  await look();
  guesses.set("shop", { wrong: 400, right: 12 });
  await look();
  expect(warnings).toEqual([
    "many phones of tenant shop are being guessed at: 240 wrong codes and 12 right ones in 10 minutes; its new codes have at least 8 digits until that is over",
  ]);
  guesses.delete("shop");
  await look();
  await look();
  expect(warnings.slice(1)).toEqual([
    "the guessing at many phones of tenant shop is over: 0 wrong codes and 0 right ones in 10 minutes; its new codes have their usual length",
  ]);
  guesses.set("shop", { wrong: 200, right: 0 });
  await look();
  expect(warnings).toHaveLength(3);
  await watch.stop();
});

test("where codes may not be lengthened, that is told", async () => {
  const { watch, look, guesses, warnings } = watching({ ...defaults, codeLengthMax: 6 });
  guesses.set("shop", { wrong: 240, right: 12 });
  watch.start();
  await look();
  expect(warnings).toEqual([expect.stringContaining("at least 6 digits")]);
  await watch.stop();
});

test("a look that fails is a fault, and the next one looks again; after a stop none does", async () => {
  const fixture = watching();
  const { watch, look, guesses, warnings, faults } = fixture;
  fixture.isDown = true;
  watch.start();
  await look();
  expect(faults.length).toBeGreaterThan(0);
  expect(warnings).toEqual([]);
  fixture.isDown = false;
  guesses.set("shop", { wrong: 240, right: 12 });
  await look();
  expect(warnings).toHaveLength(1);
  await watch.stop();
  guesses.clear();
  await look();
  expect(warnings).toHaveLength(1);
});

test("unusually many wrong codes amid right ones are told of once when they begin and once when they are over", async () => {
  const { watch, look, guesses, warnings, looks } = watching(defaults, 100);
  guesses.set("bank", { wrong: 299, right: 9_000 });
  guesses.set("bank+test", { wrong: 900, right: 9_000 });
  watch.start();
  await look();
  expect([warnings, looks.at(-1)]).toEqual([[], 0]);
  guesses.set("bank", { wrong: 300, right: 9_000 });
  await look();
  await look();
  expect([warnings, looks.at(-1)]).toEqual([
    [
      "tenant bank has 300 wrong codes in 10 minutes, and 100 are usual at this hour: somebody may guess amid its users",
    ],
    1,
  ]);
  guesses.delete("bank");
  await look();
  expect([warnings.slice(1), looks.at(-1)]).toEqual([
    ["the wrong codes at tenant bank are as usual again: 0 in 10 minutes"],
    0,
  ]);
  await watch.stop();
});

test("what is usual is the median of the same hour on the last seven days, read once an hour", async () => {
  let now = 100 * 24 * 3_600_000;
  let reads = 0;
  const counts = new Map([60, 600, 120, 180, 6_000, 240].map((count, i) => [100 * 24 - 24 * (i + 1), count]));
  const usualOf = createUsual({
    now: () => now,
    statistics: {
      readDay: async () => [],
      readPeriod: async () => undefined,
      readSums: async () => [],
      addRefusals: async () => {},
      readRefusals: async ({ tenant = "" }) => {
        reads += 1;
        return [...counts].flatMap(([hour, count]) => [
          { hour, tenant, reason: "CODE_MISMATCH", count },
          { hour: hour + 1, tenant, reason: "CODE_MISMATCH", count: 9_999 },
          { hour, tenant, reason: "OTP_EXPIRED", count: 9_999 },
        ]);
      },
    },
  });
  // One day has none: 0, 60, 120, 180, 240, 600, 6000.
  expect([await usualOf("shop"), await usualOf("shop"), reads]).toEqual([30, 30, 1]);
  now += 2 * 3_600_000;
  expect([await usualOf("shop"), reads]).toEqual([0, 2]);
});
