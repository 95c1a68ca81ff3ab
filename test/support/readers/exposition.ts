/**
 * Prometheus' text format, read as Prometheus reads it: strictly, so that a malformed line is a fault of the test's.
 */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Exposition {
  readonly samples: readonly Sample[];
  /** What each family is, by its name: counter, gauge or histogram. */
  readonly types: ReadonlyMap<string, string>;
  /** The one sample with these labels and no others; undefined when there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (NaN|Nan|[+-]Inf|[\d.e+-]+)$/;

export function parseExposition(text: string): Exposition {
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  for (const each of text.split("\n")) {
    if (each === "" || each.startsWith("# HELP ")) continue;
    const [, family, type] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(each) ?? [];
    if (family !== undefined && type !== undefined) {
      if (types.has(family)) throw new Error(`${family} is there twice`);
      types.set(family, type);
      continue;
    }
    const [, name, inner = "", value] = line.exec(each) ?? [];
    if (name === undefined) throw new Error(`not a line of Prometheus' format: ${each}`);
    const labels = Object.fromEntries(
      [...inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, of]) => [key, of]),
    );
    samples.push({ name, labels, value: Number(value?.replace("Nan", "NaN").replace("Inf", "Infinity")) });
  }
  const nameOf = (name: string, labels: Readonly<Record<string, string>>) =>
    `${name} ${JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)))}`;
  const byName = new Map(samples.map((sample) => [nameOf(sample.name, sample.labels), sample.value]));
  if (byName.size < samples.length) throw new Error("a series is there twice");
  return { samples, types, value: (name, labels = {}) => byName.get(nameOf(name, labels)) };
}

/** Reads the metrics of a service. */
export async function scrape(url: string): Promise<Exposition> {
  const response = await fetch(`${url}/metrics`);
  if (response.status !== 200) throw new Error(`/metrics answers ${response.status}`);
  return parseExposition(await response.text());
}
