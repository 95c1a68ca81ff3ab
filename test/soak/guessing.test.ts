/**
 * The guessing simulation at length: every scenario and every way of the attacker, of which the document states the best;
 * and a whole year on SQLite.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { ways, type WayName } from "../simulation/guessing/actors.ts";
import { cellsOf, statedYears } from "../simulation/guessing/document.ts";
import { World, startMs } from "../simulation/guessing/world.ts";
import { fallback, playScenario, scenarios, type Scenario } from "../simulation/guessing/scenarios.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";

const statedFor = (scenario: Scenario) => statedYears().find(({ name }) => name === scenario.name);

test.each(scenarios)("no way of guessing is better than the one that is stated: $name", async (scenario) => {
  const names = Object.keys(ways) as WayName[];
  const years = [];
  for (const way of names) years.push({ way, figures: (await playScenario(scenario, way)).figures });
  const [best] = years.toSorted((a, b) => b.figures.inAll - a.figures.inAll);
  const stated = years.filter(({ way }) => way === statedFor(scenario)?.way).map(({ figures }) => figures);
  expect(stated.map(cellsOf)).toEqual([statedFor(scenario)?.cells]);
  expect(stated.map(({ inAll }) => inAll)).toEqual([best?.figures.inAll]);
});

test.each(scenarios)("no way is better where the same code goes out by other channels too: $name", async (scenario) => {
  const stated = (await playScenario(scenario, statedFor(scenario)?.way ?? "steadily")).figures;
  for (const way of Object.keys(ways) as WayName[]) {
    const world = new World(scenario.policy, { fallback });
    const { figures } = await playScenario(scenario, way, 365, world);
    expect({ way, isBetter: figures.inAll > stated.inAll }).toEqual({ way, isBetter: false });
  }
});

describe("a year of guessing on SQLite", () => {
  test.each(scenarios.slice(0, 2))("comes to the same figures: $name", async (scenario) => {
    const folder = temporaryFolder();
    const system = createManualSystem(1, startMs);
    const store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
    try {
      const world = new World(scenario.policy, { system, store });
      const { figures } = await playScenario(scenario, "steadily", 365, world);
      expect(cellsOf(figures)).toEqual(statedFor(scenario)?.cells);
    } finally {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
