/**
 * Which file a database is, whatever path names it: SQLite keeps its log beside the file itself, and one lock beside it
 * has to hold for every path to it.
 */
import { lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";

/**
 * The path of a database file without symbolic links, also where there is no such file or folder yet: then as it will be
 * once it is made. Throws where links lead in a circle, or what should be a folder is not one.
 */
export function databaseFile(path: string): string {
  // As the SQLite package does: it would open another file than was locked.
  const given = path.trim();
  return isAbsolute(given) ? realPath(given) : realPath(`${workingFolder(given)}/${given}`);
}

/** Node's own `realpath` takes `..` for the folder before it; where that is a link, the operating system does not. */
function realPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const folder = dirname(path);
  const target = linkTarget(path);
  if (target !== undefined) return realPath(isAbsolute(target) ? target : `${folder}/${target}`);
  return join(realPath(folder), basename(path));
}

/** Where a symbolic link leads; undefined where there is none. */
function linkTarget(path: string): string | undefined {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? readlinkSync(path) : undefined;
}

function workingFolder(path: string): string {
  try {
    return process.cwd();
  } catch (error) {
    throw new Error(`the folder ${dirname(path)} cannot be made: the working directory was deleted`, { cause: error });
  }
}

/**
 * Why a database file is not to be opened: it has more names than one, and under each of them there would be another lock
 * and another log. Undefined where it has one, or is not there.
 */
export function otherNames(file: string): string | undefined {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined || !found.isFile() || found.nlink <= 1) return undefined;
  const folder = dirname(file);
  const here = readdirSync(folder)
    .map((name) => join(folder, name))
    // A symbolic link does not count as a name.
    .filter((name) => name !== file && lstatSync(name, { throwIfNoEntry: false })?.ino === found.ino);
  const which = here.length === 0 ? "" : `, such as ${here.join(", ")}`;
  return `the database ${file} has ${found.nlink} names (hard links), each of which would be a database of its own: remove the others${which}`;
}
