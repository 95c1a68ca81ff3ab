/**
 * Which packages a bundle holds, with what their licences want to be kept with them.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Package {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly author?: string | { readonly name: string };
}

/** The text that goes with a bundle of these files, by the packages that they are of. Throws for one without a licence. */
export function noticesOf(root: string, inputs: readonly string[]): string {
  const folders = new Set(inputs.map(folderOf).filter((folder) => folder !== undefined));
  const packages = [...folders].map((folder) => packageIn(root, folder)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const list = packages.map(({ name, version, license }) => `${name} ${version} (${license})`).join("\n");
  const texts = packages.map(({ name, version, text }) => `${"-".repeat(80)}\n${name} ${version}\n\n${text}\n`);
  return `The code in dist/src holds that of these packages, with the copyright of their authors:\n\n${list}\n\n${texts.join("\n")}`;
}

/** The folder of the package that a file is of; undefined for a file of our own. */
export function folderOf(path: string): string | undefined {
  return /^(.*\bnode_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
}

function packageIn(root: string, folder: string): Package & { readonly text: string } {
  const at = join(root, folder);
  const manifest = JSON.parse(readFileSync(join(at, "package.json"), "utf8")) as Package;
  const { name, version, license, author } = manifest;
  const files = readdirSync(at).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
  if (license === undefined) throw new Error(`${name} says nothing of its licence`);
  const texts = files.toSorted().map((file) => readFileSync(join(at, file), "utf8").trim());
  const by = typeof author === "object" ? author.name : author;
  // The text of Apache-2.0 is in the package's LICENSE, which is ours too.
  const named = `${license}${by === undefined ? "" : `, by ${by}`}. The package has no file of it.`;
  return { name, version, license, text: texts.join("\n\n") || named };
}
