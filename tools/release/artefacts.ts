/**
 * What a release hands out, made from a stage: the two packages, the contract, the list of what is in it (SBOM), the notes,
 * what an image is built from, and the checksums of all that. Packages of one commit are the same, byte for byte,
 * wherever they are made.
 */
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { sectionOf } from "./changelog.ts";
import { npm, Refusal } from "./processes.ts";
import { versionOf } from "./stage.ts";

export interface Artefact {
  /** Relative to the folder of the artefacts. */
  readonly path: string;
  readonly bytes: number;
  /** In hexadecimal. */
  readonly sha256: string;
}

/** Makes all of them in an empty folder. */
export function makeArtefacts(stage: string, into: string): Artefact[] {
  const version = versionOf(stage);
  const server = `otpd-server-${version}.tgz`;
  // In the tree `private` keeps `npm publish` from publishing what somebody has in his hands.
  makePublic(join(stage, "package.json"));
  pack(stage, ".", into, server);
  makePublic(join(stage, "dist/client/package.json"));
  pack(stage, "./dist/client", into, `otpd-client-${version}.tgz`);
  copyFileSync(join(stage, "tools/release/contract.binpb"), join(into, `otp-v1-${version}.binpb`));
  // All packages, those for development marked as such: npm leaves out some that the service needs when these are omitted.
  writeFileSync(join(into, "sbom.cdx.json"), npm(stage, ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only"]));
  writeFileSync(join(into, "notes.md"), `${notesOf(stage, version)}\n`);
  const image = join(into, "image");
  mkdirSync(image);
  copyFileSync(join(into, server), join(image, server));
  copyFileSync(join(stage, "package-lock.json"), join(image, "package-lock.json"));
  const dockerfile = readFileSync(join(stage, "docs/operate/Dockerfile"), "utf8");
  writeFileSync(join(image, "Dockerfile"), fromTarball(dockerfile, server));
  const made = digestsBelow(into);
  writeFileSync(join(into, "SHA256SUMS"), made.map(({ sha256, path }) => `${sha256}  ${path}\n`).join(""));
  return digestsBelow(into);
}

/** Throws a sentence where the changelog has nothing to say. */
function notesOf(stage: string, version: string): string {
  const section = sectionOf(readFileSync(join(stage, "docs/changelog.md"), "utf8"), version);
  if (section === undefined) throw new Refusal(`docs/changelog.md has no section of ${version}.`);
  return section.body;
}

function makePublic(path: string): void {
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace(/^ *"private": true,\n/m, ""));
}

function pack(stage: string, what: string, into: string, expected: string): void {
  npm(stage, ["pack", what, "--silent", "--pack-destination", into]);
  if (!readdirSync(into).includes(expected)) throw new Refusal(`npm made no ${expected}.`);
}

/**
 * The Dockerfile of the repository for a folder that holds the package already: where that one makes the package, this one
 * unpacks it. All else is as it is there. Throws where the Dockerfile makes no package.
 */
export function fromTarball(dockerfile: string, server: string): string {
  const lines = dockerfile.split("\n");
  const first = lines.findIndex((line) => line.startsWith("FROM "));
  const made = lines.findIndex((line) => /^RUN .*\bnpm pack\b/.test(line));
  if (first < 0 || made < first) throw new Refusal("docs/operate/Dockerfile has no step that makes the package.");
  return [
    "# The image of otpd, from its package beside this file: docker build --tag otpd .",
    "",
    lines[first],
    "WORKDIR /build",
    `COPY ${server} ./`,
    `RUN mkdir -p /app && tar -xzf ${server} --strip-components=1 -C /app`,
    ...lines.slice(made + 1),
  ].join("\n");
}

function digestsBelow(folder: string): Artefact[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .toSorted()
    .map((path) => ({
      path: relative(folder, path),
      bytes: statSync(path).size,
      sha256: createHash("sha256").update(readFileSync(path)).digest("hex"),
    }));
}
