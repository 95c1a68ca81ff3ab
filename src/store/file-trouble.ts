/**
 * What is wrong with a file that could not be opened or written, in plain words. Node's own speak of `EACCES` and of system calls.
 */
import { statfsSync } from "node:fs";
import { dirname } from "node:path";

const words = new Map([
  ["ENOENT", "is not there"],
  ["ENOTDIR", "is not there: a part of its path is a file"],
  ["EISDIR", "is a folder"],
  ["EACCES", "is not open to this user"],
  ["EPERM", "is not open to this user"],
  ["EROFS", "is on a disk that cannot be written"],
  ["ENOSPC", "has no room: the disk is full"],
  ["EMFILE", "cannot be opened: this process has too many files open"],
  ["ELOOP", "is a link that leads in a circle"],
  ["ENAMETOOLONG", "has too long a name"],
]);

/** The rest of a sentence that begins with the file, such as "is a folder"; undefined where the error is of another kind. */
export function fileTrouble(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? words.get(String(error.code)) : undefined;
}

/**
 * What SQLite says is wrong with one of these files. Its "disk I/O error" tells nobody where to look, and is what it says
 * where there is no room for the -shm file.
 */
export function sqliteTrouble(
  { code, message }: { code: string; message: string },
  ...paths: readonly string[]
): string {
  if (!code.startsWith("SQLITE_IOERR")) return message;
  const full = paths.map((path) => dirname(path)).find((folder) => statfsSync(folder).bavail === 0);
  return full === undefined ? message : `the disk of ${full} is full`;
}
