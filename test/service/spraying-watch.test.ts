import { expect, test } from "vitest";
import type { Guesses } from "../../src/otp/spraying.ts";
import { createSprayingWatch } from "../../src/service/spraying-watch.ts";
import { StoreUnavailable } from "../../src/store/store.ts";
import { Machine, turn } from "../simulation/machine.ts";
import { policy as defaults } from "../support/data/examples.ts";
import { ofOneMind } from "../support/service/tenants.ts";

const lookMs = 15_000;

/** A watch on guesses that a test sets, and what it told. */
function watching(policy = defaults) {
  const machine = new Machine();
  const guesses = new Map<string, Guesses>();
  const [warnings, faults]: [string[], unknown[]] = [[], []];
  const fixture = { guesses, warnings, faults, isDown: false };
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
