/**
 * What is written about metrics is true: the dashboard, the alert rules and docs/metrics.md name metrics that a real
 * scrape has, with labels that they have and values that these can take, and the document leaves none out.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { reasons } from "../../src/otp/reason.ts";
import { lacks } from "../support/machine.ts";
import { parseExposition, scrape, type Exposition } from "../support/readers/exposition.ts";
import { wrongCode } from "../support/data/phones.ts";
import { readQuery, type Query } from "../support/readers/promql.ts";
import { surfaces, type Rpc, type Surface } from "../support/clients/surfaces.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

const docs = join(import.meta.dirname, "../../docs");
const read = (path: string) => readFileSync(join(docs, path), "utf8");

let folder: string;
let world: World;
let text: string;
/** Before anything happened, and after a little of it. */
let fresh: Exposition;
let scraped: Exposition;
/** The labels of each series name, and the values that each label took. */
const labelsOf = new Map<string, Map<string, Set<string>>>();

beforeAll(async () => {
  folder = temporaryFolder();
  const prices = join(folder, "prices.json");
  writeFileSync(prices, JSON.stringify({ currency: "EUR", prices: [{ country: "*", per_segment: "0.0825" }] }));
  world = await startWorld({ OTP_PRICES_FILE: prices });
  fresh = await scrape(world.url);
  const [rest] = surfaces as readonly [Surface];
  const call = (rpc: Rpc, message: Record<string, string>) => rest.call(world.url, rpc, message, { key: world.key });
  const sent = await call("SendOtp", { phone: "+31612345678" });
  const id = String(sent.value?.["request_id"]);
  const code = world.network.codeFor("+31612345678");
  await call("VerifyOtp", { request_id: id, code: wrongCode(code) });
  world.system.advance(30_000);
  await call("ResendOtp", { request_id: id });
  await call("VerifyOtp", { request_id: id, code });
  text = await (await fetch(`${world.url}/metrics`)).text();
  scraped = parseExposition(text);
  for (const { name, labels } of scraped.samples) {
    const known = labelsOf.get(name) ?? new Map<string, Set<string>>();
    labelsOf.set(name, known);
    for (const [label, value] of Object.entries(labels)) known.set(label, (known.get(label) ?? new Set()).add(value));
  }
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** What a scrape adds by itself. */
const ofPrometheus = new Set(["job", "instance"]);
/** Values that a label can take beyond those that the scenario led to. */
const possible: Record<string, readonly string[]> = {
  reason: Object.keys(reasons),
  outcome: ["ok", "refused", "failed", "accepted", "throttled", "unavailable", "ambiguous"],
};

/** What is wrong with a query, given what there is. */
function faultsOf({ selectors, groups }: Query): string[] {
  const all = new Set(selectors.flatMap(({ metric }) => [...(labelsOf.get(metric)?.keys() ?? [])]));
  return [
    ...selectors.flatMap(({ metric, values }) => {
      const known = labelsOf.get(metric);
      if (metric === "up") return [];
      if (known === undefined) return [`there is no ${metric}`];
      return Object.entries(values).flatMap(([label, wanted]) => {
        if (ofPrometheus.has(label)) return [];
        const taken = known.get(label);
        if (taken === undefined) return [`${metric} has no ${label}`];
        return wanted
          .filter((value) => !taken.has(value) && possible[label]?.includes(value) !== true)
          .map((value) => `no ${label} of ${metric} is ${value}`);
      });
    }),
    ...groups
      .filter((label) => !all.has(label) && !ofPrometheus.has(label))
      .map((label) => `there is no label ${label}`),
  ];
}

const rules = read("operate/prometheus-rules.yml");
/** Each alert's name, expression and the rest of what it says. */
const alerts = rules
  .split(/^ {6}- alert: /m)
  .slice(1)
  .map((alert) => {
    const [, line, block] = /^ {8}expr: (?:>-\n((?: {10}.*\n)+)|(.+)\n)/m.exec(alert) ?? [];
    return {
      name: alert.slice(0, alert.indexOf("\n")),
      expression: (line ?? block ?? "").replaceAll(/\s+/g, " "),
      text: alert,
    };
  });

interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}
const dashboard = JSON.parse(read("operate/grafana-dashboard.json")) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
};
const page = read("metrics.md");
const written = [...page.matchAll(/^```promql\n([^]*?)^```$/gm)].map(([, query = ""]) => query);

describe("the reader of queries", () => {
  test("finds metrics, labels and values", () => {
    const query =
      'sum by (a, le) (rate(x_total{b="c",d=~"e|f",g=~"$h"}[5m])) / on (a) y > 14.4 * 0.001 and z offset 1d';
    expect(readQuery(query)).toEqual({
      selectors: [
        { metric: "x_total", values: { b: ["c"], d: ["e", "f"], g: [] } },
        { metric: "y", values: {} },
        { metric: "z", values: {} },
      ],
      groups: ["a", "le", "a"],
      aggregates: true,
    });
  });

  test.each([
    ["otp_sendz_total", "there is no otp_sendz_total"],
    ['otp_sends_total{tenant="a"}', "otp_sends_total has no tenant"],
    ['otp_calls_total{outcome="fialed"}', "no outcome of otp_calls_total is fialed"],
    ["sum by (tenant) (otp_sends_total)", "there is no label tenant"],
  ])("and what is wrong with %s", (query, fault) => {
    expect(faultsOf(readQuery(query))).toEqual([fault]);
  });
});

describe("the alert rules", () => {
  test("are read, each with its expression", () => {
    expect(alerts.length).toBe(rules.match(/- alert:/g)?.length);
    expect(alerts.length).toBeGreaterThan(10);
    expect(alerts.filter(({ expression }) => expression === "")).toEqual([]);
  });

  test("look at metrics, labels and values that there are", () => {
    expect(
      alerts.flatMap(({ name, expression }) => faultsOf(readQuery(expression)).map((fault) => `${name}: ${fault}`)),
    ).toEqual([]);
  });

  test("have a series from the start for all that they look at: one that begins at 27 is no increase to Prometheus", () => {
    const ofCountries = new Set(["otp_verified_total", "otp_handed_over_total"]);
    const wanted = alerts.flatMap(({ expression }) => readQuery(expression).selectors);
    const absent = wanted.flatMap(({ metric, values }) => {
      const own = Object.entries(values).filter(([label]) => !ofPrometheus.has(label));
      const series = fresh.samples.filter(({ name }) => name === metric);
      const missing = own.flatMap(([label, each]) =>
        each.filter((value) => !series.some(({ labels }) => labels[label] === value)).map((value) => [metric, value]),
      );
      return series.length > 0 || metric === "up" || ofCountries.has(metric) ? missing : [[metric]];
    });
    expect(absent).toEqual([]);
  });

  test("tell of labels that are left after the aggregation", () => {
    const lost = alerts.flatMap(({ name, expression, text: alert }) => {
      const { groups, aggregates } = readQuery(expression);
      const labels = [...alert.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label);
      return aggregates ? labels.filter((label) => !groups.includes(label)).map((label) => `${name} ${label}`) : [];
    });
    expect(lost).toEqual([]);
  });
});

describe("the dashboard", () => {
  const targets = dashboard.panels.flatMap(({ title, targets: each }) => each.map((target) => ({ title, ...target })));

  test("looks at metrics, labels and values that there are", () => {
    expect(targets.length).toBeGreaterThan(15);
    expect(
      targets.flatMap(({ title, expr }) => faultsOf(readQuery(expr)).map((fault) => `${title}: ${fault}`)),
    ).toEqual([]);
    const variables = dashboard.templating.list.flatMap(({ definition }) => definition ?? []);
    const [, metric = ""] = /^label_values\((\w+), instance\)$/.exec(variables.join()) ?? [];
    expect(labelsOf.has(metric)).toBe(true);
  });

  test("names its lines by labels that they have", () => {
    const lost = targets.flatMap(({ title, expr, legendFormat }) => {
      const { groups, aggregates } = readQuery(expr);
      const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
      return aggregates ? labels.filter((label) => !groups.includes(label)).map((label) => `${title} ${label}`) : [];
    });
    expect(lost).toEqual([]);
  });

  test("leaves no family of ours out", () => {
    const shown = new Set(targets.flatMap(({ expr }) => readQuery(expr).selectors.map(({ metric }) => metric)));
    const families = [...scraped.types.keys()].filter((name) => name.startsWith("otp_"));
    const isShown = (family: string) => ["", "_bucket", "_sum", "_count"].some((suffix) => shown.has(family + suffix));
    expect(families.filter((family) => !isShown(family))).toEqual([]);
  });
});

describe("docs/metrics.md", () => {
  test("lists every family of ours, with its labels, and no other", () => {
    const rows = [...page.matchAll(/^\| `(otp_\w+)` +\| (.*?) +\|/gm)].map(([, name, labels = ""]) => [
      name,
      [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label),
    ]);
    const there = [...scraped.types]
      .filter(([name]) => name.startsWith("otp_"))
      .map(([name, type]) => {
        const labels = labelsOf.get(type === "histogram" ? `${name}_count` : name);
        return [name, [...(labels?.keys() ?? [])]];
      });
    expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(there));
    expect(rows).toHaveLength(there.length);
  });

  test("has what two messages cost", () => {
    const costs = scraped.samples.filter(({ name }) => name === "otp_cost_total");
    expect(costs).toMatchObject([{ labels: { provider: "test", channel: "sms", currency: "EUR" } }]);
    expect(costs[0]?.value).toBeCloseTo(0.165, 9);
  });

  test("names what comes with them, and queries, that there are", () => {
    const named = [...page.matchAll(/`((?:nodejs|process)_\w+)`/g)].map(([, name = ""]) => name);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((name) => !scraped.types.has(name))).toEqual([]);
    expect(written.length).toBe(3);
    expect(written.flatMap((query) => faultsOf(readQuery(query)))).toEqual([]);
  });

  test("says which reasons are our fault as the code does", () => {
    const [, list = ""] = /by our own fault \(([A-Z_,\s]+)\)/.exec(page) ?? [];
    const failing = scraped.samples.filter(
      ({ name, labels }) => name === "otp_refusals_total" && labels["rpc"] === "GetOtp",
    );
    // Those alone have a series before they happen.
    expect(new Set(list.split(/,\s+/))).toEqual(new Set(failing.map(({ labels }) => labels["reason"])));
  });
});

describe("Prometheus' own promtool", () => {
  test.skipIf(lacks("rules and metrics by promtool", "promtool"))("reads the rules, and a scrape", () => {
    expect(
      execFileSync("promtool", ["check", "rules", join(docs, "operate/prometheus-rules.yml")]).toString(),
    ).toContain(`SUCCESS: ${alerts.length} rules found`);
    expect(() => execFileSync("promtool", ["check", "metrics"], { input: text })).not.toThrow();
  });

  test.skipIf(lacks("alerts that fire, by promtool", "promtool"))(
    "has the alerts of an attack fire, and only then",
    () => {
      const of = (name: string) => {
        const { text: alert } = alerts.find((each) => each.name === name) ?? { text: "" };
        const [, summary = ""] = /summary: "(.*)"/.exec(alert) ?? [];
        const [, description = ""] = /description: "(.*)"/.exec(alert) ?? [];
        return { summary, description };
      };
      const expected = (name: string, labels: Record<string, string>) => {
        const { summary, description } = of(name);
        const shown = (sentence: string) => sentence.replace("{{ $labels.enforced }}", String(labels["enforced"]));
        return {
          exp_labels: { severity: "ticket", ...labels },
          exp_annotations: { summary: shown(summary), description: shown(description) },
        };
      };
      const at = (eval_time: string, alertname: string, exp_alerts: readonly unknown[]) => ({
        eval_time,
        alertname,
        exp_alerts,
      });
      const cases = {
        rule_files: [join(docs, "operate/prometheus-rules.yml")],
        evaluation_interval: "1m",
        tests: [
          {
            interval: "1m",
            input_series: [
              { series: "otp_guessed_tenants", values: "0x9 1x9 0x20" },
              { series: 'otp_prefix_trips_total{enforced="no"}', values: "0x9 1x29" },
              { series: 'otp_prefix_trips_total{enforced="yes"}', values: "0x39" },
              { series: 'otp_prefix_limits_total{enforced="no"}', values: "0x9 1x29" },
              { series: 'otp_prefix_limits_total{enforced="yes"}', values: "0x39" },
            ],
            alert_rule_test: [
              at("5m", "OtpdWrongCodesUnusual", []),
              at("12m", "OtpdWrongCodesUnusual", [expected("OtpdWrongCodesUnusual", {})]),
              at("25m", "OtpdWrongCodesUnusual", []),
              at("5m", "OtpdPrefixPumped", []),
              at("12m", "OtpdPrefixPumped", [expected("OtpdPrefixPumped", { enforced: "no" })]),
              at("5m", "OtpdPrefixLimited", []),
              at("12m", "OtpdPrefixLimited", [expected("OtpdPrefixLimited", { enforced: "no" })]),
            ],
          },
        ],
      };
      const path = join(folder, "alerts.json");
      writeFileSync(path, JSON.stringify(cases));
      expect(execFileSync("promtool", ["test", "rules", path]).toString()).toContain("SUCCESS");
    },
  );
});
