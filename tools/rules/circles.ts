/**
 * Imports that lead in a circle, over all files at once: a reader of one file of a circle has to read them all. Those of
 * types count as any others.
 */
import { importsOf, resolve, type SourceFile } from "./rules.ts";

/** One sentence for each circle. Pure. */
export function circlesOf(files: readonly SourceFile[]): string[] {
  const paths = new Set(files.map(({ path }) => path));
  const imports = new Map(
    files.map(({ path, text }) => [
      path,
      importsOf(text)
        .filter(({ from }) => from.startsWith("."))
        .map(({ from }) => resolve(path, from))
        .filter((target) => paths.has(target)),
    ]),
  );
  const circles: string[] = [];
  const done = new Set<string>();
  const follow = (path: string, way: readonly string[]): void => {
    const start = way.indexOf(path);
    if (start >= 0) circles.push(`${[...way.slice(start), path].join(" imports ")}: imports must not lead in a circle`);
    if (start >= 0 || done.has(path)) return;
    for (const next of imports.get(path) ?? []) follow(next, [...way, path]);
    done.add(path);
  };
  for (const path of paths) follow(path, []);
  return circles;
}
