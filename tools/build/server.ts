/**
 * Builds the server into `dist/`: its code and that of the packages it uses in few files, since to find and to read some six
 * hundred was most of a start; and beside it, at the same paths as in the repository, what it reads. What only some
 * configurations need is in files of its own. The same sources give the same bytes, and what is there already is not written
 * again: a server that runs from here goes on.
 */
import { build, type Metafile } from "esbuild";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { builtPath, stampOf } from "../../src/built.js";
import { isNodeModule, nodeModulesAsObjects } from "./node-modules.ts";
import { folderOf, noticesOf } from "./notices.ts";

const root = join(import.meta.dirname, "../..");
const dist = join(root, "dist");

/** What the server reads beside its code; folders without their TypeScript. The pages' scripts are in gen/, bundled. */
export const readBeside = [
  "package.json",
  "gen/openapi.json",
  "gen/demo",
  "gen/console",
  "gen/elements",
  "src/demo",
  "src/console",
  "src/delivery/providers/presets",
];
/** What else decides what is built. */
const decides = [
  "tools/build/server.ts",
  "tools/build/node-modules.ts",
  "tools/build/notices.ts",
  "node_modules/.package-lock.json",
];

/** Programs to bundle: where each goes below its folder, without an ending, and its source. */
export type Programs = Readonly<Record<string, string>>;

/** The programs of threads have names by which they are started; what they share with the server is in one place. */
export const threads = {
  "src/store/sqlite/checkpoint-worker": "src/store/sqlite/checkpoint-worker.ts",
  "src/store/sqlite/long-read-worker": "src/store/sqlite/long-read-worker.ts",
} satisfies Programs;
const server = { "src/cli": "src/cli.ts", ...threads } satisfies Programs;

export interface Bundled {
  /** The contents of each file, by its path below the folder. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** The paths of the files that went into each of them, from the root. */
  readonly inputsOf: ReadonlyMap<string, readonly string[]>;
  /** All that went in, whether anything of it is left or not. */
  readonly inputs: readonly string[];
}

/** Bundles programs for a folder, such as the server's for `dist/`, and writes nothing. */
export async function bundle(programs: Programs = server, folder = "dist"): Promise<Bundled> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: programs,
    outdir: folder,
    // All right below src/: src/own-files.ts is anywhere among them, and finds the rest from there.
    chunkNames: "src/[name]-[hash]",
    write: false,
    bundle: true,
    // Packages may be another clone's, by a link: what is built names no path outside this one.
    preserveSymlinks: true,
    splitting: true,
    metafile: true,
    platform: "node",
    format: "esm",
    target: "node22.18",
    // A driver with machine code in it, which is installed for its machine; and one that pg can do without.
    external: ["better-sqlite3", "pg-native"],
    plugins: [nodeModulesAsObjects],
    // Names stay, so that a stack can be read. The maps lead to lines of the sources: node --enable-source-maps loads them.
    sourcemap: "linked",
    sourcesContent: false,
    legalComments: "none",
    // What packages require: Node's own modules, and beside them what hardly one asks for.
    banner: {
      js: 'const require = (path) => process.getBuiltinModule(path) ?? process.getBuiltinModule("node:module").createRequire(import.meta.url)(path);',
    },
  });
  return {
    files: new Map(outputFiles.map(({ path, contents }) => [relative(join(root, folder), path), contents])),
    inputsOf: inputsOf(metafile, folder),
    inputs: Object.keys(metafile.inputs).filter((path) => !isNodeModule(path)),
  };
}

function inputsOf({ outputs }: Metafile, folder: string): Map<string, string[]> {
  return new Map(
    Object.entries(outputs).map(([path, { inputs }]) => [
      relative(folder, path),
      Object.keys(inputs).filter((input) => !isNodeModule(input)),
    ]),
  );
}

/** Builds the server. `builtPath` is there once it is whole, and names all it was made of. */
export async function buildServer(): Promise<void> {
  const note = join(root, builtPath);
  // As it is before anything is read: what changes meanwhile is another file afterwards.
  const stampable = ["package.json", "src", "gen", ...decides]
    .flatMap((path) => filesIn(path))
    .filter((path) => existsSync(join(root, path)));
  const stamps = new Map(stampable.map((path) => [path, stampOf(join(root, path))]));
  const { files, inputs } = await bundle();
  const own = readBeside.flatMap(filesIn).filter((path) => !path.endsWith(".ts"));
  const all = new Map([
    ...files,
    ...own.map((path) => [path, readFileSync(join(root, path))] as const),
    ["third-party.txt", Buffer.from(noticesOf(root, inputs))] as const,
  ]);
  const changed = [...all].filter(([path, contents]) => !holds(join(dist, path), contents));
  const left = ["src", "gen"].flatMap((folder) => below(dist, folder)).filter((path) => !all.has(path));
  // Until it is whole, nobody may take it for built.
  if (changed.length + left.length > 0) rmSync(note, { force: true });
  for (const [path, contents] of changed) put(join(dist, path), contents);
  for (const path of left) rmSync(join(dist, path), { force: true });
  // Packages change by npm alone, which notes it among what decides.
  const ours = inputs.filter((path) => folderOf(path) === undefined);
  const made = [...new Set([...ours, ...own, ...decides])].map((path) => [path, stamps.get(path) ?? ""]);
  put(note, Buffer.from(JSON.stringify(Object.fromEntries(made))));
}

/** The files of a path of the repository, from the root: itself, or all that a folder holds. */
function filesIn(path: string): string[] {
  return /\.\w+$/.test(path) ? [path] : below(root, path);
}

/** The files below a folder, from `base`. */
function below(base: string, folder: string): string[] {
  if (!existsSync(join(base, folder))) return [];
  return readdirSync(join(base, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(base.length + 1));
}

function holds(path: string, contents: Uint8Array): boolean {
  return existsSync(path) && readFileSync(path).equals(contents);
}

function put(path: string, contents: Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  // Whoever reads it meanwhile gets the old one or the new one. Two that build at once write the same.
  const made = join(dist, `${process.pid}.new`);
  writeFileSync(made, contents);
  renameSync(made, path);
}
