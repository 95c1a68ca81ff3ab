/**
 * The stage of a release: a clone of one commit in a folder of its own, in which the release is written and built, so that
 * the tree stays as it is until all of it has worked. What is built there is of exactly what will be committed.
 */
import { appendFileSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dated } from "./changelog.ts";
import { git, npm, script, tool } from "./processes.ts";

/** Where the packages come from: `lockfile` installs those of package-lock.json, `installed` takes those of the tree. */
export type Packages = "lockfile" | "installed";

/** Makes the stage of a commit, with its packages. npm calls the whole in an SBOM by the name of this folder. */
export function makeStage(root: string, commit: string, packages: Packages): { folder: string; remove(): void } {
  const scratch = mkdtempSync(join(tmpdir(), "otpd-release-"));
  const folder = join(scratch, "otpd");
  const remove = () => rmSync(scratch, { recursive: true, force: true });
  try {
    git(root, ["clone", "--quiet", "--shared", "--no-checkout", root, folder]);
    git(folder, ["checkout", "--quiet", "--detach", commit]);
    // As a link it is none of the folders that .gitignore names.
    appendFileSync(join(folder, ".git/info/exclude"), "node_modules\n");
    if (packages === "lockfile") npm(folder, ["ci", "--no-workspaces", "--prefer-offline", "--no-audit", "--no-fund"]);
    else symlinkSync(realpathSync(join(root, "node_modules")), join(folder, "node_modules"));
  } catch (error) {
    remove();
    throw error;
  }
  return { folder, remove };
}

export function versionOf(folder: string): string {
  return (JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string }).version;
}

/** Writes a release into the stage: all that its commit changes. */
export function writeRelease(folder: string, version: string, date: string): void {
  const current = versionOf(folder);
  const edit = (path: string, change: (text: string) => string) => {
    const text = readFileSync(join(folder, path), "utf8");
    const changed = change(text);
    if (changed !== text) writeFileSync(join(folder, path), changed);
  };
  const own = (text: string, times: number) => {
    let left = times;
    return text.replaceAll(/^( *"version": )"([^"]+)"/gm, (line, head: string, found: string) => {
      if (left === 0 || found !== current) return line;
      left -= 1;
      return `${head}"${version}"`;
    });
  };
  edit("package.json", (text) => own(text, 1));
  // Its own two lines come before those of any package.
  edit("package-lock.json", (text) => own(text, 2));
  edit("gen/openapi.json", (text) => own(text, 1));
  edit("docs/changelog.md", (text) => dated(text, version, date));
  const telling = git(folder, ["ls-files", "README.md", "docs", "tools/client"]).trim().split("\n");
  const keeping = new Set(["docs/changelog.md", "docs/decisions.md"]);
  for (const path of telling) if (!keeping.has(path)) edit(path, (text) => renamed(text, current, version));
  // What operators call is no part of it: buf compares an image with one module.
  tool(folder, "buf", ["build", "proto", "--path", "proto/otp/v1", "-o", "tools/release/contract.binpb"]);
  // Web pages name the form by its hash: the next four releases serve this one too.
  script(folder, ["tools/generate/element.ts", "keep"]);
}

/** Documents name the tarballs, and manifests the image, by the version. */
export function renamed(text: string, current: string, version: string): string {
  const escaped = current.replaceAll(/[.+]/g, String.raw`\$&`);
  const named = new RegExp(
    String.raw`(\botpd-(?:server|client)-)${escaped}(?=\.tgz\b)|(\bimage: otpd:)${escaped}(?![\w.-])`,
    "g",
  );
  return text.replaceAll(named, (_, tarball?: string, image?: string) => `${tarball ?? image}${version}`);
}

/** What the commit would change: a letter for how, and the path. */
export function changesOf(folder: string): string[] {
  git(folder, ["add", "--all"]);
  return git(folder, ["diff", "--cached", "--name-status", "HEAD"]).trim().split("\n").filter(Boolean);
}

/** All of these changes, for `git apply`. */
export function patchOf(folder: string): string {
  git(folder, ["add", "--all"]);
  return git(folder, ["diff", "--cached", "--binary", "HEAD"]);
}
