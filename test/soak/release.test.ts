/**
 * A release by its command, in a clone that is thrown away: the dry run makes everything and changes nothing, and the
 * release commits, tags and hands out the same. What is handed out is whole, and serves from where nobody can write.
 */
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { npm } from "../support/processes/packages.ts";
import { cleanEnv, firstKey, startOtpd } from "../support/processes/process.ts";
import { readDockerfile } from "../support/readers/dockerfile.ts";

const root = join(import.meta.dirname, "../..");
const scratch = mkdtempSync(join(tmpdir(), "otpd-release-test-"));
afterAll(() => {
  execFileSync("chmod", ["-R", "u+w", scratch]);
  rmSync(scratch, { recursive: true });
});

const git = (folder: string, ...args: string[]) => execFileSync("git", args, { cwd: folder, encoding: "utf8" });

/** A clone on main with a commit of the tree as it is here, so that what is tested is what would be committed. */
function cloneTree(name: string): string {
  const clone = join(scratch, name);
  execFileSync("git", ["clone", "--quiet", "--shared", "--no-tags", root, clone], { stdio: "ignore" });
  git(clone, "checkout", "--quiet", "-B", "main");
  const changed = git(root, "ls-files", "--modified", "--others", "--exclude-standard", "-z").split("\0");
  for (const path of new Set(changed.filter(Boolean))) {
    mkdirSync(dirname(join(clone, path)), { recursive: true });
    copyFileSync(join(root, path), join(clone, path));
  }
  git(clone, "config", "user.name", "Release");
  git(clone, "config", "user.email", "release@example.com");
  writeFileSync(join(clone, ".git/info/exclude"), "node_modules\n");
  symlinkSync(realpathSync(join(root, "node_modules")), join(clone, "node_modules"));
  git(clone, "add", "--all");
  git(clone, "commit", "--quiet", "--allow-empty", "--message", "The tree as it is");
  return clone;
}

interface Ended {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

function release(folder: string, ...args: string[]): Promise<Ended> {
  const options = { cwd: folder, env: cleanEnv() };
  return promisify(execFile)("npm", ["run", "release", "--silent", "--", ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout, errors: stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
      code,
      output: stdout,
      errors: stderr,
    }),
  );
}

const stateOf = (folder: string) => ({
  head: git(folder, "rev-parse", "HEAD"),
  status: git(folder, "status", "--porcelain"),
  tags: git(folder, "tag"),
});
const hashOf = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
    .toSorted();
const json = (path: string) => JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;

describe("what is refused before anything is made", () => {
  let clone: string;
  beforeAll(() => {
    clone = cloneTree("refusing");
    git(clone, "tag", "v0.9.0");
  });

  test.each([
    ["no version", ["--version", "1.0"], "1.0 is no version: one is written like 1.0.0 or 1.1.0-rc.1.\n"],
    ["a released one", ["--version", "0.9.0"], "0.9.0 is released already: there is a tag v0.9.0.\n"],
    ["one before that", ["--version", "0.8.7"], "0.8.7 is not higher than 0.9.0, which is released.\n"],
    ["a tag that is not there", ["--tag", "v3.0.0"], "There is no tag v3.0.0.\n"],
    [
      "a folder of something else",
      ["--bump", "major", "--out", "src"],
      /src holds something else: name another --out\.\n$/,
    ],
  ])("%s", async (_, args, sentence) => {
    const { code, output, errors } = await release(clone, ...args);
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toMatch(sentence);
  });

  test("nothing, or two things, to release", async () => {
    for (const args of [[], ["--version", "1.0.0", "--bump", "minor"], ["--bump", "huge"]]) {
      expect(await release(clone, ...args)).toMatchObject({
        code: 2,
        output: "",
        errors: /npm run release -- --version/,
      });
    }
  });

  test("a tree with changes, another branch, and a changelog that has nothing to say", async () => {
    const asked = ["--version", "1.0.0"];
    writeFileSync(join(clone, "README.md"), "changed");
    expect(await release(clone, ...asked)).toEqual({
      code: 1,
      output: "",
      errors: "The tree has changes that are not committed: README.md.\n",
    });
    git(clone, "checkout", "--quiet", "README.md");
    git(clone, "checkout", "--quiet", "-b", "aside");
    const aside = await release(clone, ...asked);
    expect(aside.errors).toBe("Releases are made on main, and this is aside.\n");
    writeFileSync(join(clone, "docs/changelog.md"), "# Changelog\n\n## 0.9.0, 2026-01-01\n\n- All.\n");
    const silent = await release(clone, ...asked);
    expect(silent.errors).toBe(
      `docs/changelog.md has no section of 1.0.0, and none that begins with "## Unreleased".\n`,
    );
    // Without a word on the version, a dry run is of the one that is due.
    const due = await release(clone, "--dry-run");
    expect(due.errors).toBe(`docs/changelog.md has no section of 0.10.0, and none that begins with "## Unreleased".\n`);
    expect([aside.code, silent.code, due.code]).toEqual([1, 1, 1]);
    expect(git(clone, "tag")).toBe("v0.9.0\n");
  });
});

describe("a release", () => {
  let clone: string;
  let before: ReturnType<typeof stateOf>;
  let afterDryRun: ReturnType<typeof stateOf>;
  let dry: Ended;
  let real: Ended;
  const tried = join(scratch, "tried");
  const made = join(scratch, "made");
  const asked = ["--version", "98.7.6", "--installed"];
  beforeAll(async () => {
    clone = cloneTree("releasing");
    before = stateOf(clone);
    dry = await release(clone, ...asked, "--dry-run", "--out", tried);
    afterDryRun = stateOf(clone);
    real = await release(clone, ...asked, "--unsigned", "--out", made);
  });

  test("works, dry and in earnest", () => {
    expect([dry, real]).toEqual([
      { code: 0, output: expect.any(String) as string, errors: "" },
      { code: 0, output: expect.any(String) as string, errors: "" },
    ]);
  });

  test("leaves the tree as it was when run dry, and says what it would change and what it made", () => {
    expect(afterDryRun).toEqual(before);
    for (const change of [
      "M package.json",
      "M docs/changelog.md",
      "M tools/release/contract.binpb",
      "M gen/openapi.json",
    ]) {
      expect(dry.output).toContain(`  ${change}\n`);
    }
    expect(dry.output).toMatch(/^ {2}A tools\/release\/elements\/\d{4}-otp-form\.js$/m);
    for (const path of filesOf(tried)) {
      expect(dry.output).toMatch(
        new RegExp(`^  ${path} +${statSync(join(tried, path)).size} bytes  sha256:${hashOf(join(tried, path))}$`, "m"),
      );
    }
  });

  test("is one commit and an annotated tag", () => {
    expect(git(clone, "log", "--format=%s", "-2")).toBe("Release 98.7.6\nThe tree as it is\n");
    expect(git(clone, "status", "--porcelain")).toBe("");
    expect(git(clone, "cat-file", "-t", "v98.7.6")).toBe("tag\n");
    expect(git(clone, "rev-parse", "v98.7.6^{commit}")).toBe(git(clone, "rev-parse", "HEAD"));
    expect(real.output).toContain("Nothing is published yet: git push origin main v98.7.6");
    const changed = git(clone, "show", "--format=", "--name-status", "HEAD").trim().split("\n");
    for (const change of changed) expect(dry.output).toContain(`  ${change.replace("\t", " ")}\n`);
  });

  test("has the version wherever it stands, a dated section of the changelog, the contract and the form", () => {
    for (const path of ["package.json", "package-lock.json"]) expect(json(join(clone, path))["version"]).toBe("98.7.6");
    expect(json(join(clone, "gen/openapi.json"))["info"]).toMatchObject({ version: "98.7.6" });
    const told = git(
      clone,
      "grep",
      "-hoE",
      "otpd-(server|client)-[0-9.]+[0-9]\\.tgz|image: otpd:[0-9.]+",
      "--",
      "README.md",
      "docs",
    );
    expect(new Set(told.trim().split("\n"))).toEqual(
      new Set(["otpd-server-98.7.6.tgz", "otpd-client-98.7.6.tgz", "image: otpd:98.7.6"]),
    );
    expect(readFileSync(join(clone, "docs/changelog.md"), "utf8")).toMatch(/^## 98\.7\.6, \d{4}-\d\d-\d\d$/m);
    const { latest } = json(join(clone, "gen/elements/integrity.json"));
    const kept = readdirSync(join(clone, "tools/release/elements"))
      .filter((name) => name.endsWith(".js"))
      .toSorted();
    expect(hashOf(join(clone, "tools/release/elements", kept.at(-1) ?? ""))).toBe(
      hashOf(join(clone, "gen", String(latest))),
    );
    execFileSync("node_modules/.bin/buf", ["breaking", "proto", "--against", "tools/release/contract.binpb"], {
      cwd: clone,
    });
    expect(hashOf(join(made, "otp-v1-98.7.6.binpb"))).toBe(hashOf(join(clone, "tools/release/contract.binpb")));
  });

  test("hands out the same packages, byte for byte, whenever they are made of one commit", () => {
    expect(filesOf(tried)).toEqual(filesOf(made));
    // What .github/workflows/release.yml publishes.
    expect(filesOf(made)).toEqual([
      "SHA256SUMS",
      "image/Dockerfile",
      "image/otpd-server-98.7.6.tgz",
      "image/package-lock.json",
      "notes.md",
      "otp-v1-98.7.6.binpb",
      "otpd-client-98.7.6.tgz",
      "otpd-server-98.7.6.tgz",
      "sbom.cdx.json",
    ]);
    for (const path of filesOf(made).filter((name) => !/^(SHA256SUMS|sbom\.cdx\.json)$/.test(name))) {
      expect([path, hashOf(join(made, path))]).toEqual([path, hashOf(join(tried, path))]);
    }
  });

  test("has a checksum of each file, which is right", () => {
    const lines = readFileSync(join(made, "SHA256SUMS"), "utf8").trimEnd().split("\n");
    expect(lines).toEqual(
      filesOf(made)
        .filter((path) => path !== "SHA256SUMS")
        .map((path) => `${hashOf(join(made, path))}  ${path}`),
    );
    execFileSync("sha256sum", ["--check", "--quiet", "--strict", "SHA256SUMS"], { cwd: made });
  });

  test("has an SBOM of CycloneDX with each package that it needs at runtime, by its hash", () => {
    interface Component {
      name: string;
      version: string;
      type: string;
      purl: string;
      "bom-ref": string;
      hashes?: object[];
      licenses?: object[];
      properties?: { name: string }[];
    }
    const sbom = json(join(made, "sbom.cdx.json"));
    expect(sbom).toMatchObject({
      bomFormat: "CycloneDX",
      specVersion: /^1\.\d$/,
      serialNumber: /^urn:uuid:[\da-f-]{36}$/,
      metadata: { component: { name: "otpd", version: "98.7.6", purl: "pkg:npm/%40otpd/server@98.7.6" } },
    });
    const components = sbom["components"] as Component[];
    for (const one of components)
      expect(one).toMatchObject({ type: "library", name: /./, version: /^\d/, purl: /^pkg:npm\// });
    const references = new Set(components.map((one) => one["bom-ref"]));
    expect(references.size).toBe(components.length);
    const whole = (sbom["metadata"] as { component: Component }).component["bom-ref"];
    const dependencies = sbom["dependencies"] as { ref: string; dependsOn: string[] }[];
    const named = new Set(dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]));
    expect([...named].filter((ref) => ref !== whole && !references.has(ref))).toEqual([]);
    const locked = json(join(clone, "package-lock.json"))["packages"] as Record<
      string,
      { version: string; dev?: boolean; optional?: boolean; peer?: boolean; link?: boolean }
    >;
    const needed = Object.entries(locked).filter(
      ([path, { dev, optional, peer, link }]) =>
        path.startsWith("node_modules/") && !dev && !optional && !peer && !link,
    );
    expect(needed.length).toBeGreaterThan(20);
    for (const [path, { version }] of needed) {
      const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
      const found = components.find((one) => one.name === name && one.version === version);
      expect([
        name,
        found?.hashes?.length,
        found?.properties?.some((each) => each.name === "cdx:npm:package:development"),
      ]).toEqual([name, 1, false]);
    }
  });

  test("has notes, and an image that is built from the very package", () => {
    expect(readFileSync(join(made, "notes.md"), "utf8")).toMatch(/^- \*\*/m);
    expect(hashOf(join(made, "image/otpd-server-98.7.6.tgz"))).toBe(hashOf(join(made, "otpd-server-98.7.6.tgz")));
    const steps = readDockerfile(join(made, "image/Dockerfile"));
    const ours = readDockerfile(join(clone, "docs/operate/Dockerfile"));
    const copied = steps
      .filter(({ instruction, text }) => instruction === "COPY" && !text.startsWith("--from"))
      .flatMap(({ text }) => text.split(" ").slice(0, -1));
    expect(copied.toSorted()).toEqual(["otpd-server-98.7.6.tgz", "package-lock.json"]);
    expect(filesOf(join(made, "image"))).toEqual(["Dockerfile", "otpd-server-98.7.6.tgz", "package-lock.json"]);
    const app = ours.findIndex(({ instruction, text }) => instruction === "WORKDIR" && text === "/app");
    expect(steps.slice(4)).toEqual(ours.slice(app));
  });

  test("has packages that may be published, and a tree that may not", () => {
    const manifestOf = (tarball: string) =>
      JSON.parse(
        execFileSync("tar", ["-xzOf", join(made, tarball), "package/package.json"], { encoding: "utf8" }),
      ) as object;
    for (const name of ["server", "client"]) {
      const manifest = manifestOf(`otpd-${name}-98.7.6.tgz`);
      expect(manifest).toMatchObject({ name: `@otpd/${name}`, version: "98.7.6" });
      expect(manifest).not.toHaveProperty("private");
    }
    expect(json(join(clone, "package.json"))).toMatchObject({ private: true });
  });

  test("serves from a path with blanks that it cannot write to, as a user without a home", async () => {
    const prefix = join(scratch, "a bare machine");
    mkdirSync(prefix);
    await npm(scratch, ["install", "--global", "--prefix", prefix, join(made, "otpd-server-98.7.6.tgz")]);
    execFileSync("chmod", ["-R", "a-w,a+rX", prefix]);
    // To root nothing is read-only.
    const isRoot = process.getuid?.() === 0;
    const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
    const data = join(scratch, "its data");
    mkdirSync(data);
    if (isRoot) chownSync(data, 65_534, 65_534);
    chmodSync(scratch, 0o755);
    const env = { HOME: "/nonexistent", NODE_COMPILE_CACHE: "" };
    const otpd = await startOtpd(data, env, ["serve"], { file: join(prefix, "bin/otpd"), user });
    try {
      const ask = async (path: string, message: object) => {
        const headers = { authorization: `Bearer ${await firstKey(otpd)}`, "content-type": "application/json" };
        const answer = await fetch(otpd.url + path, { method: "POST", headers, body: JSON.stringify(message) });
        return (await answer.json()) as Record<string, unknown>;
      };
      const { request_id } = await ask("/v1/otp/send", { phone: "+14155552671" });
      const [, code] = await otpd.waitFor(/│ (\d{6}) /);
      expect(await ask("/v1/otp/verify", { request_id, code })).toMatchObject({ state: "STATE_VERIFIED" });
    } finally {
      expect(await otpd.end()).toBe(0);
    }
  });
});
