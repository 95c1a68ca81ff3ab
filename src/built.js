// Whether what was built is of the very files that lie here now. In plain JavaScript, since a start asks it first, and a
// package holds nothing to ask about.
const fs = process.getBuiltinModule("node:fs");

/** Where the build notes what it read, below the root. */
export const builtPath = "dist/built.json";

/**
 * How a file is told from what it was when it was built: its size and the time of its last change.
 * @param {string} file
 * @returns {string}
 */
export function stampOf(file) {
  const { size, mtimeMs } = fs.statSync(file);
  return `${size} ${mtimeMs}`;
}

/**
 * Whether `dist/` below a root was built of the files that are there now. One that was touched since is another.
 * @param {string} root a path
 * @returns {boolean}
 */
export function isBuilt(root) {
  try {
    const stamps = JSON.parse(fs.readFileSync(`${root}/${builtPath}`, "utf8"));
    return Object.entries(stamps).every(([path, stamp]) => stampOf(`${root}/${path}`) === stamp);
  } catch {
    // Not built, or a file is gone.
    return false;
  }
}
