/**
 * The tables of docs/security.md, read: what it states must be what the simulation finds.
 */
import { readDocument } from "../../support/readers/document.ts";
import type { WayName } from "./actors.ts";
import { oneIn, type Figures } from "./figures.ts";
import type { SprayWay } from "./spray.ts";

const { table } = readDocument("docs/security.md");

const count = (cell: string | undefined) => Number((cell ?? "").replaceAll(",", "").replace("–", "0"));

/** The figures of a year as the document writes them. */
export interface StatedYear {
  readonly name: string;
  readonly way: WayName;
  readonly cells: readonly string[];
}

export function statedYears(): StatedYear[] {
  return table("who is attacked").map(([name = "", way = "", ...cells]) => ({ name, way: way as WayName, cells }));
}

/** A year as the document would write it. */
export function cellsOf({ sends, byDigits, worstDay, usualDay, inAll }: Figures): string[] {
  const guesses = [6, 8, 10].map((digits) => (byDigits[digits] ?? 0).toLocaleString("en-US").replace(/^0$/, "–"));
  return [sends.toLocaleString("en-US"), ...guesses, oneIn(worstDay), oneIn(usualDay), oneIn(inAll)];
}

export interface StatedSpray {
  readonly way: SprayWay;
  readonly figures: Record<string, number | string>;
}

export function statedSprays(): StatedSpray[] {
  return table("how he spreads").map(([way = "", sends, six, eight, chance = ""]) => ({
    way: way as SprayWay,
    figures: Object.fromEntries(
      Object.entries({ sends: count(sends), 6: count(six), 8: count(eight), chance }).filter(
        ([, value]) => value !== 0,
      ),
    ),
  }));
}
