/**
 * Where the files lie that the code reads beside itself, and the programs of its threads. Nothing else asks where it
 * lies itself. In the repository each file has its folder; in `dist/` one file right below `dist/src/` holds the code of
 * many, and a path from there would lead elsewhere.
 */
import { readFileSync } from "node:fs";
import { extname } from "node:path";

/** The root of the repository, or `dist/`, which holds such files at the same paths. */
const root = new URL("../", import.meta.url);

/** The bytes of a file, by its path from the root, such as `gen/openapi.json`. Throws where there is none. */
export function readOwnFile(path: string): Buffer {
  return readFileSync(new URL(path, root));
}

/** Where a program of ours lies, by its path from the root without an ending: TypeScript, or what was built of it. */
export function ownProgram(path: string): URL {
  return new URL(`${path}${extname(import.meta.filename)}`, root);
}
