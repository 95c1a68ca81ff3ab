/**
 * Makes a release, from the last commit of main: `npm run release -- --version 1.0.0`, or `--bump minor`.
 *
 * It writes version, changelog, the contract's image and the form's build into the tree, commits and tags, and makes what is
 * handed out: packages, SBOM, checksums, and what an image is built from. It publishes nothing: the tag, once pushed, has
 * .github/workflows/release.yml do that.
 *
 *   --dry-run      makes all of it, tells what would change, and leaves the tree as it is; where no version is said, of the one
 *                  that is due
 *   --tag v1.0.0   makes what is handed out of a release that is tagged already
 *   --out DIR      where it goes, instead of release/; a folder of an earlier run is replaced
 *   --unsigned     makes a tag without a signature
 *   --installed    builds with the packages in node_modules, and not with those of package-lock.json installed afresh: to
 *                  try things, since the package's files are named by what they hold, down to where packages lie
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { misused, optionsOf } from "../command-line.ts";
import { makeArtefacts, type Artefact } from "./artefacts.ts";
import { dated } from "./changelog.ts";
import { git, gitSays, Refusal } from "./processes.ts";
import { changesOf, makeStage, patchOf, versionOf, writeRelease, type Packages } from "./stage.ts";
import { bumped, dueVersion, steps, versionTrouble } from "./version.ts";

const root = join(import.meta.dirname, "../..");

/** What stands in the way of a commit and a tag, a sentence each. */
function troublesOf(version: string): string[] {
  const branch = git(root, ["branch", "--show-current"]).trim();
  const changed = git(root, ["status", "--porcelain"]).split("\n").filter(Boolean);
  const tag = `v${version}`;
  return [
    ...(branch === "main" ? [] : [`Releases are made on main, and this is ${branch || "no branch"}.`]),
    ...(changed.length === 0
      ? []
      : [`The tree has changes that are not committed: ${changed[0]?.slice(3)}${more(changed)}.`]),
    ...(gitSays(root, ["rev-parse", "--verify", "--quiet", `refs/tags/${tag}`])
      ? [`There is a tag ${tag} already.`]
      : []),
    ...(gitSays(root, ["var", "GIT_COMMITTER_IDENT"])
      ? []
      : ["git does not know who commits: set user.name and user.email."]),
  ];
}

const more = ({ length }: readonly string[]) => (length > 1 ? ` and ${length - 1} more` : "");

function releasedVersions(): string[] {
  return git(root, ["tag", "--list", "v*"])
    .trim()
    .split("\n")
    .filter(Boolean)
    .map((tag) => tag.slice(1));
}

/** Where artefacts may go: a folder that is not there, is empty, or has those of an earlier run. */
function takeFolder(folder: string): void {
  if (!existsSync(folder)) return;
  const names = readdirSync(folder);
  if (names.length > 0 && !names.includes("SHA256SUMS"))
    throw new Refusal(`${folder} holds something else: name another --out.`);
}

function handOut(made: string, folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(made, folder, { recursive: true });
}

function show(artefacts: readonly Artefact[], folder: string): void {
  console.log(`Made in ${relative(process.cwd(), folder) || "."}:`);
  const wide = Math.max(...artefacts.map(({ path }) => path.length));
  for (const { path, bytes, sha256 } of artefacts) {
    console.log(`  ${path.padEnd(wide)}  ${`${bytes}`.padStart(9)} bytes  sha256:${sha256}`);
  }
}

/** Builds on a stage, which is removed however that ends. */
function onStage<T>(commit: string, packages: Packages, work: (stage: string, made: string) => T): T {
  const stage = makeStage(root, commit, packages);
  try {
    const made = join(stage.folder, "../made");
    mkdirSync(made);
    return work(stage.folder, made);
  } finally {
    stage.remove();
  }
}

function ofTag(tag: string, out: string, packages: Packages): void {
  if (!gitSays(root, ["rev-parse", "--verify", "--quiet", `refs/tags/${tag}`]))
    throw new Refusal(`There is no tag ${tag}.`);
  onStage(tag, packages, (stage, made) => {
    const version = versionOf(stage);
    if (tag !== `v${version}`) throw new Refusal(`The tag is ${tag}, and package.json says ${version} there.`);
    const artefacts = makeArtefacts(stage, made);
    handOut(made, out);
    console.log(`otpd ${version}, of ${tag}.`);
    show(artefacts, out);
  });
}

interface Asked {
  readonly version: string;
  readonly out: string;
  readonly packages: Packages;
  /** `none` leaves the tree alone; the others are how the tag is made. */
  readonly tagging: "none" | "signed" | "unsigned";
}

function make({ version, out, packages, tagging }: Asked): void {
  const isDry = tagging === "none";
  const troubles = troublesOf(version);
  if (!isDry && troubles[0] !== undefined) throw new Refusal(troubles[0]);
  const date = new Date().toISOString().slice(0, 10);
  const commit = git(root, ["rev-parse", "--short", "HEAD"]).trim();
  onStage("HEAD", packages, (stage, made) => {
    const current = versionOf(stage);
    writeRelease(stage, version, date);
    const changes = changesOf(stage);
    const patch = patchOf(stage);
    const artefacts = makeArtefacts(stage, made);
    console.log(
      `otpd ${version}, after ${current}, of ${commit}.${isDry ? " A dry run: the tree is left as it is." : ""}`,
    );
    for (const trouble of isDry ? troubles : []) console.log(`A release would be refused now: ${trouble}`);
    console.log(isDry ? `Would change and be committed as "Release ${version}", tagged v${version}:` : "Changed:");
    for (const change of changes) console.log(`  ${change.replace("\t", " ")}`);
    if (!isDry) commitAndTag(version, patch, tagging);
    handOut(made, out);
    show(artefacts, out);
    if (!isDry)
      console.log(`Committed and tagged v${version}. Nothing is published yet: git push origin main v${version}`);
  });
}

function commitAndTag(version: string, patch: string, tagging: "signed" | "unsigned"): void {
  if (patch !== "") {
    git(root, ["apply", "--index", "-"], patch);
    git(root, ["commit", "--quiet", "--message", `Release ${version}`]);
  }
  const how = tagging === "signed" ? "--sign" : "--annotate";
  try {
    git(root, ["tag", how, `v${version}`, "--message", `otpd ${version}`]);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new Refusal(`The release is committed, and not tagged: git tag --sign v${version} is left to do. ${said}`);
  }
}

const { values } = optionsOf(import.meta.filename, {
  options: {
    version: { type: "string" },
    bump: { type: "string" },
    tag: { type: "string" },
    out: { type: "string", default: "release" },
    "dry-run": { type: "boolean", default: false },
    unsigned: { type: "boolean", default: false },
    installed: { type: "boolean", default: false },
  },
});
const { version, bump, tag } = values;
const said = [version, bump, tag].filter((given) => given !== undefined);
if (said.length > 1 || (said.length === 0 && !values["dry-run"])) {
  misused(import.meta.filename, "One of --version, --bump and --tag has to say what is released.");
}
const step = steps.find((each) => each === bump);
if (bump !== undefined && step === undefined) misused(import.meta.filename, `--bump is one of ${steps.join(", ")}.`);
try {
  const out = resolve(values.out);
  takeFolder(out);
  const packages = values.installed ? "installed" : "lockfile";
  if (tag !== undefined) ofTag(tag, out, packages);
  else {
    const current = versionOf(root);
    const released = releasedVersions();
    const wanted = version ?? (step === undefined ? dueVersion(current, released) : bumped(current, step));
    const trouble = versionTrouble(wanted, current, released);
    if (trouble !== undefined) throw new Refusal(trouble);
    // Told before anything is built.
    dated(readFileSync(join(root, "docs/changelog.md"), "utf8"), wanted, "");
    const tagging = values["dry-run"] ? "none" : values.unsigned ? "unsigned" : "signed";
    make({ version: wanted, out, packages, tagging });
  }
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
