/**
 * What is wrong with a file that could not be opened, in plain words. Node's own speak of `EACCES` and of system calls.
 */

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
