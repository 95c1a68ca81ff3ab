/**
 * The builds of the form to embed as the server serves them: the one of these sources, and those of earlier releases, which are
 * kept in `tools/release/elements/` so that web pages that name them by their hash go on working after an upgrade.
 *
 * `node tools/generate/element.ts keep` is a step of a release: it keeps the build of these sources, and lets the fifth before it go.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const keptFolder = join(root, "tools/release/elements");
const document = join(root, "docs/browsers.md");

/** How many builds are served, the latest among them. */
export const buildsMax = 5;

/** Kept builds, the latest first; a file begins with its release's number, so that names sort. */
export function keptBuilds(folder = keptFolder): Buffer[] {
  const names = readdirSync(folder).filter((name) => /^\d{4}-otp-form\.js$/.test(name));
  return names
    .toSorted()
    .toReversed()
    .map((name) => readFileSync(join(folder, name)));
}

function pathOf(build: Uint8Array): string {
  return `/elements/otp-form.${createHash("sha256").update(build).digest("hex").slice(0, 16)}.js`;
}

export function integrityOf(build: Uint8Array): string {
  return `sha384-${createHash("sha384").update(build).digest("base64")}`;
}

/** Writes the latest build and those kept into `elements/` of a folder, with what their integrity is. */
export function writeElement(folder: string, latest: Uint8Array, kept: readonly Uint8Array[] = keptBuilds()): void {
  const builds = new Map<string, Uint8Array>([latest, ...kept].map((build) => [pathOf(build), build]));
  const served = [...builds].slice(0, buildsMax);
  const target = join(folder, "elements");
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const [path, build] of served) writeFileSync(join(folder, path), build);
  const integrity = {
    latest: pathOf(latest),
    builds: Object.fromEntries(served.map(([path, build]) => [path, integrityOf(build)])),
  };
  writeFileSync(join(target, "integrity.json"), `${JSON.stringify(integrity, null, 2)}\n`);
}

/** The document names the latest build by its path and its integrity. */
export function renewed(text: string, { latest, builds }: { latest: string; builds: Record<string, string> }): string {
  return text
    .replaceAll(/\/elements\/otp-form\.[0-9a-f]{16}\.js/g, latest)
    .replaceAll(/sha384-[A-Za-z0-9+/]{64}/g, builds[latest] ?? "");
}

function generated(): { latest: string; builds: Record<string, string> } {
  return JSON.parse(readFileSync(join(root, "gen/elements/integrity.json"), "utf8")) as ReturnType<typeof generated>;
}

export function renewDocument(): void {
  const text = readFileSync(document, "utf8");
  const fresh = renewed(text, generated());
  if (fresh !== text) writeFileSync(document, fresh);
}

/** Keeps a build in a folder as the latest one, unless it is that already, and lets the oldest beyond the most go. */
export function keep(folder: string, build: Buffer): void {
  const names = readdirSync(folder)
    .filter((name) => name.endsWith(".js"))
    .toSorted();
  const [last] = names.slice(-1);
  if (last !== undefined && readFileSync(join(folder, last)).equals(build)) return;
  const number = Number(last?.slice(0, 4) ?? 0) + 1;
  writeFileSync(join(folder, `${`${number}`.padStart(4, "0")}-otp-form.js`), build);
  for (const name of names.slice(0, Math.max(0, names.length + 1 - buildsMax))) rmSync(join(folder, name));
}

if (import.meta.main && process.argv[2] === "keep") {
  keep(keptFolder, readFileSync(join(root, "gen", generated().latest)));
}
