/**
 * A year of guessing, and an hour of spraying: the attacker's best way against the real rules and the real acts. The
 * figures are those that docs/security.md states; that sends stay within the limits, codes are as long as designed, what
 * was admitted verifies and a known user's send goes out is held within the runs themselves.
 *
 * The scenarios that take longer, every other way of the attacker, and the same years on SQLite are in
 * test/soak/guessing.test.ts.
 */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { policy as defaults } from "../../support/data/examples.ts";
import { sampled } from "../../support/extent.ts";
import { createManualSystem } from "../../support/service/system.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import { cellsOf, statedSprays, statedYears } from "./document.ts";
import { chanceOf, oneIn } from "./figures.ts";
import { ways, type WayName } from "./actors.ts";
import { World, isOpened, startMs } from "./world.ts";
import { Ledger } from "./ledger.ts";
import { fallback, playScenario, scenarioCalled, scenarios } from "./scenarios.ts";
import { playSpray, sprayWays } from "./spray.ts";

describe("a year of guessing at one phone", () => {
  test("is stated for every scenario", () => {
    expect(statedYears().map(({ name }) => name)).toEqual(scenarios.map(({ name }) => name));
  });

  test.each(["idle owner", "owner who signs in every day", "`OTP_CODE_LENGTH_MAX=10`", "`OTP_GUESS_POLICY=strict`"])(
    "comes to what docs/security.md says: %s",
    async (name) => {
      const stated = statedYears().find((row) => row.name === name);
      const { figures, signIns } = await playScenario(scenarioCalled(name), stated?.way ?? "steadily");
      expect(cellsOf(figures)).toEqual(stated?.cells);
      expect(signIns.all).toBe(scenarioCalled(name).isOwnerActive ? 365 * scenarioCalled(name).tenants : 0);
    },
  );

  test("is as much again at a second tenant, where the phone has limits and a past of its own", async () => {
    const at = async (name: string) => (await playScenario(scenarioCalled(name), "steadily", 20)).figures;
    const one = await at("owner who signs in every day");
    const two = await at("one phone at two tenants");
    expect(two.sends).toBe(2 * one.sends);
    expect(two.byDigits).toEqual({ 6: 48, 8: 2 * (one.byDigits[8] ?? 0) });
    expect(two.inAll).toBeCloseTo(1 - (1 - one.inAll) ** 2, 15);
    const stated = (row: string) =>
      statedYears()
        .find(({ name }) => name === row)
        ?.cells.slice(0, 3) ?? [];
    const amounts = (row: string) => stated(row).map((cell) => Number(cell.replace(",", "")));
    expect(amounts("one phone at two tenants")).toEqual(amounts("owner who signs in every day").map((n) => 2 * n));
  });

  test("wins nothing from an owner whose SMS come back to the limits that both of them use", async () => {
    const at = (name: string) => playScenario(scenarioCalled(name), "around the owner", 60);
    const [idle, active] = [await at("idle owner"), await at("owner who signs in every day")];
    expect(active.signIns).toEqual({ all: 60, known: 0 });
    // Less by the requests that the owner gives up.
    expect(idle.figures.sends - active.figures.sends).toBeGreaterThanOrEqual(0);
    expect(idle.figures.sends - active.figures.sends).toBeLessThan(5);
    expect(active.figures.inAll).toBeLessThanOrEqual(idle.figures.inAll);
  });

  test("meets six digits 20 times where he opens what he can before he guesses", async () => {
    const { figures } = await playScenario(scenarioCalled("idle owner"), "opening first", 5);
    expect(figures.byDigits[6]).toBe(20);
  });

  test("meets six digits 24 times in any 90 days", async () => {
    const { figures } = await playScenario(scenarioCalled("idle owner"), "in bursts", 90);
    expect(figures.byDigits[6]).toBe(24);
  });

  test("costs the owner no sign-in: on days without an attack he is no stranger, and on others a known user", async () => {
    const scenario = scenarioCalled("owner who signs in every day");
    const { signIns } = await playScenario(scenario, "in bursts");
    expect(signIns.all).toBe(365);
    expect(signIns.known).toBeGreaterThan(0);
    expect(signIns.known).toBeLessThan(12);
  });

  test.each(["idle owner", "owner who signs in every day"])(
    "is no better where the same code goes out by other channels too: %s",
    async (name) => {
      const scenario = scenarioCalled(name);
      const without = (await playScenario(scenario, "steadily", 60)).figures;
      let fallbacks = 0;
      for (const way of sampled(Object.keys(ways) as WayName[], 3)) {
        const world = new World(scenario.policy, { fallback });
        const { figures, signIns } = await playScenario(scenario, way, 60, world);
        expect(figures.inAll).toBeLessThanOrEqual(without.inAll);
        expect(figures.byDigits[6]).toBeLessThanOrEqual(24);
        expect(signIns.all).toBe(scenario.isOwnerActive ? 60 : 0);
        fallbacks += world.fallbacks;
      }
      expect(fallbacks).toBeGreaterThan(0);
    },
  );

  test("is stated by the README as by docs/security.md", () => {
    const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8").replaceAll(/\s+/g, " ");
    const [idle, active] = statedYears().map(({ cells }) => cells.slice(-3));
    expect(active).toEqual(idle);
    const [worst, usual, year] = idle ?? [];
    expect(readme).toContain(`a chance of ${worst} on his best day, ${usual} on a usual one and ${year} in the year`);
  });

  test("is no different on SQLite", async () => {
    const folder = temporaryFolder();
    const system = createManualSystem(1, startMs);
    const store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
    try {
      const scenario = scenarioCalled("owner who signs in every day");
      const world = new World(scenario.policy, { system, store });
      const onSqlite = await playScenario(scenario, "steadily", 5, world);
      expect(onSqlite).toEqual(await playScenario(scenario, "steadily", 5));
    } finally {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("an hour of guessing at many phones", () => {
  test.each(sprayWays)("comes to what docs/security.md says: %s", async (way) => {
    const stated = statedSprays().find((row) => row.way === way);
    const after = await playSpray(defaults, way, 1_000);
    expect({ sends: after.sends, ...after.byDigits, chance: oneIn(after.inAll) }).toEqual(stated?.figures);
  });

  test("without the rule is one chance in 200", async () => {
    const { byDigits, inAll } = await playSpray({ ...defaults, codeLengthMax: 6 }, "evenly", 1_000);
    expect([byDigits, oneIn(inAll)]).toEqual([{ 6: 5_000 }, "1 in 200"]);
  });

  test("hides behind phones of the attacker's own only at one verified for every four wrong codes", async () => {
    const some = await playSpray(defaults, "evenly", 600, 100);
    const most = await playSpray(defaults, "evenly", 900, 520);
    expect(some.byDigits[8]).toBeGreaterThan(2_000);
    expect(most.byDigits).toEqual({ 6: 5 * 380 });
  });
});

describe("the simulation itself", () => {
  test("computes the chance of guesses as they are: each at another code of its request", () => {
    const guessed = (guesses: number, digits: number) => ({ day: 0, guesses, digits });
    expect(chanceOf([])).toBeCloseTo(0, 15);
    expect(chanceOf([guessed(5, 6)])).toBeCloseTo(5e-6, 15);
    expect(chanceOf([guessed(500_000, 6), guessed(500_000, 6)])).toBeCloseTo(0.75, 12);
    expect(oneIn(1.3349e-4)).toBe("1 in 7,490");
  });

  test("finds a window with one SMS too many", () => {
    const ledger = new Ledger();
    const limits = [{ burst: 2, intervalMs: 1_000 }];
    for (const at of [0, 0, 1_000, 1_500]) ledger.note("a", at, 1);
    expect(() => ledger.inspect(limits)).toThrow("limits: 4 SMS by a in 1500 ms");
    const within = new Ledger();
    for (const at of [0, 0, 1_000, 2_000]) within.note("a", at, 1);
    within.note("a", 2_500, -1);
    within.note("a", 2_500, 1);
    expect(within.inspect(limits)).toBeGreaterThan(0);
  });

  test("notices when a phone is refused", async () => {
    const world = new World(defaults);
    for (let i = 0; i < 5; i++) expect(isOpened(await world.send("owner", "shop", "+31612345678", false))).toBe(true);
    expect(await world.send("owner", "shop", "+31612345678", false)).toMatchObject({ reason: "PHONE_RATE_LIMITED" });
  });
});
