/**
 * A plot over time that one can read values off and zoom into, with the same numbers as a table below it.
 */
import uPlot from "uplot";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { make } from "./dom.ts";
import { dash, day, hour, time } from "./format.ts";
import { button } from "./parts.ts";
import { table } from "./table.ts";

export interface Line {
  readonly label: string;
  /** One for each time; null where there is nothing to say. */
  readonly values: readonly (number | null)[];
}

export interface PlotData {
  readonly title: string;
  /** In seconds since the epoch, ascending, in equal steps. */
  readonly times: readonly number[];
  /** Eight at most: there are no more colours that one can tell apart. */
  readonly lines: readonly Line[];
  /** Says a value as people read it. */
  readonly format: (value: number) => string;
  /** The finest step that the scale is marked in: `format` tells no two such values alike. */
  readonly step: number;
}

const linesMax = 8;
const heightPx = 240;
const widthPxMin = 200;
const lastLabelPx = 28;
const axisPx = 64;
/** The widest that an hour is written, with its AM or PM. */
const hourLabelPx = 72;
const dayS = 86_400;
/** Steps that people count in: 1, 2 and 5 of each power of ten. */
const roundSteps = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** (power - 2))).flat();

/** Makes a plot. It is drawn anew when its place or the colours change, until `left`. */
export function plot(data: PlotData, left: AbortSignal): HTMLElement {
  const { title, times, lines, format, step } = data;
  const incrs = roundSteps.filter((each) => each >= step);
  const place = make("div", { class: "plot" });
  const reset = button("Whole period", () => drawn?.setScale("x", { min: times[0] ?? 0, max: times.at(-1) ?? 1 }));
  reset.hidden = true;
  let drawn: uPlot | undefined;

  const draw = () => {
    drawn?.destroy();
    const styles = getComputedStyle(place);
    const colour = (name: string) => styles.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    drawn = new uPlot(
      {
        width: Math.max(widthPxMin, place.clientWidth),
        height: heightPx,
        // The last time on the axis is written around its tick.
        padding: [null, lastLabelPx, null, null],
        cursor: { drag: { x: true, y: false }, points: { size: 7 } },
        scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [
          { ...axis, space: hourLabelPx, values: (_, ticks, __, ___, apart) => timesOn(ticks, apart) },
          { ...axis, size: axisPx, incrs, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {
            label: "Time",
            value: (_: uPlot, at: number | null) => (at === null ? dash : time(timestampFromMs(at * 1_000))),
          },
          ...lines.map(({ label, values }, i) => ({
            label,
            stroke: colour(`--line-${i + 1}`),
            width: 2,
            dash: i < linesMax / 2 ? [] : [6, 4],
            points: { show: values.some(isAlone) },
            value: (_: uPlot, value: number | null) => (value === null ? dash : format(value)),
          })),
        ],
        hooks: {
          setScale: [
            (self, scale) => {
              const { min, max } = self.scales["x"] ?? {};
              if (scale === "x") reset.hidden = min === times[0] && max === times.at(-1);
            },
          ],
        },
      },
      [[...times], ...lines.map(({ values }) => [...values])],
      place,
    );
  };

  // The first time comes once the place is on the page.
  const sizes = new ResizeObserver(draw);
  sizes.observe(place);
  const night = matchMedia("(prefers-color-scheme: dark)");
  night.addEventListener("change", draw, { signal: left });
  left.addEventListener("abort", () => {
    sizes.disconnect();
    drawn?.destroy();
  });

  return make(
    "figure",
    {},
    make("figcaption", {}, title, reset),
    // The table says it to those who cannot see the drawing.
    make("div", { attributes: { "aria-hidden": "true" } }, place),
    make("details", {}, make("summary", {}, "As a table"), numbers(data)),
  );
}

/** What the axis of time says at marks that are so many seconds apart: days, or hours with the day where one begins. */
function timesOn(ticks: readonly number[], apart: number): string[] {
  let before = "";
  return ticks.map((at) => {
    const on = timestampFromMs(at * 1_000);
    if (apart >= dayS) return day(on);
    const isSame = before === day(on);
    before = day(on);
    return isSame ? hour(on) : `${hour(on)}\n${day(on)}`;
  });
}

/** True for a value without a neighbour: no line leads to it, so it needs a point to be seen. */
function isAlone(value: number | null, at: number, values: readonly (number | null)[]): boolean {
  return value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
}

/** The same as a table. */
function numbers({ title, times, lines, format }: PlotData): HTMLElement {
  const rows = times.map((at, i) => ({ at, values: lines.map(({ values }) => values[i] ?? null) }));
  return table(
    title,
    rows,
    [
      { head: "Time", cell: ({ at }) => time(timestampFromMs(at * 1_000)) },
      ...lines.map(({ label }, i) => ({
        head: label,
        kind: "number" as const,
        cell: ({ values }: (typeof rows)[number]) => {
          const value = values[i];
          return value === null || value === undefined ? dash : format(value);
        },
      })),
    ],
    "There is nothing in this period.",
  );
}
