/**
 * An earlier version of the server's package, made on the spot from its commit: packed there with what its own lockfile says,
 * and installed as its users did.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { npm } from "./packages.ts";

const root = join(import.meta.dirname, "../../..");

/** The first commit whose package could be installed. */
export const firstPackage = "e058f26c100a4f04294bcacaf60f7bd60620e87b";

/** Whether the repository lacks a commit, as a shallow clone does what is further back. Prints that a test is skipped for it. */
export function lacksCommit(commit: string, tested: string): boolean {
  const { status } = spawnSync("git", ["cat-file", "-e", `${commit}^{commit}`], { cwd: root, stdio: "ignore" });
  if (status !== 0)
    console.warn(`skipped: ${tested}: this clone lacks commit ${commit.slice(0, 7)}: git fetch --unshallow`);
  return status !== 0;
}

/** Packs and installs the server of a commit below a folder. Returns the file of its command. */
export async function installEarlier(commit: string, folder: string): Promise<string> {
  const sources = join(folder, "sources");
  mkdirSync(sources, { recursive: true });
  const archive = execFileSync("git", ["archive", commit], { cwd: root, maxBuffer: 2 ** 30 });
  execFileSync("tar", ["-x", "-C", sources], { input: archive });
  await npm(sources, ["ci", "--no-workspaces"]);
  await npm(sources, ["pack", "--pack-destination", folder]);
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "";
  return installPackage(join(folder, tarball), join(folder, "installed"));
}

/** Installs a tarball into a folder of its own. Returns the file of its command. */
export async function installPackage(tarball: string, prefix: string): Promise<string> {
  mkdirSync(prefix, { recursive: true });
  await npm(prefix, ["install", "--global", "--prefix", prefix, tarball]);
  return join(prefix, "bin/otpd");
}
