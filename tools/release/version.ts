/**
 * How versions of a release are read, compared and counted on: semantic versions, such as 1.0.0 and 1.1.0-rc.1.
 */

export type Step = "major" | "minor" | "patch";
export const steps: readonly Step[] = ["major", "minor", "patch"];

interface Version {
  readonly numbers: readonly [number, number, number];
  /** What stands behind a hyphen, between dots; empty for a release proper. */
  readonly before: readonly string[];
}

const number = "(0|[1-9]\\d*)";
const identifier = "(?:0|[1-9]\\d*|\\d*[A-Za-z-][0-9A-Za-z-]*)";
const shape = new RegExp(`^${number}\\.${number}\\.${number}(?:-(${identifier}(?:\\.${identifier})*))?$`);

/** Undefined for what is no version. */
export function parseVersion(text: string): Version | undefined {
  const [, major, minor, patch, before] = shape.exec(text) ?? [];
  if (major === undefined) return undefined;
  return { numbers: [Number(major), Number(minor), Number(patch)], before: before?.split(".") ?? [] };
}

/** Negative where `a` comes before `b`, as semantic versions are ordered. What is no version comes before all. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [parseVersion(a), parseVersion(b)];
  if (one === undefined || other === undefined) return Number(one !== undefined) - Number(other !== undefined);
  for (const [at, mine] of one.numbers.entries()) {
    const difference = mine - (other.numbers[at] ?? 0);
    if (difference !== 0) return difference;
  }
  if (one.before.length === 0 || other.before.length === 0) return other.before.length - one.before.length;
  for (const [at, mine] of one.before.entries()) {
    const theirs = other.before[at];
    if (theirs === undefined) return 1;
    const difference = compareIdentifiers(mine, theirs);
    if (difference !== 0) return difference;
  }
  return one.before.length - other.before.length;
}

/** Numbers by their value, before words; words by their letters. */
function compareIdentifiers(a: string, b: string): number {
  const [one, other] = [a, b].map((text) => (/^\d+$/.test(text) ? Number(text) : undefined));
  if (one !== undefined && other !== undefined) return one - other;
  if (one !== undefined || other !== undefined) return one === undefined ? 1 : -1;
  return a === b ? 0 : a < b ? -1 : 1;
}

/** The next version by a step. What leads up to a version (1.1.0-rc.1) becomes that version by its smallest step. */
export function bumped(version: string, step: Step): string {
  const { numbers, before } = parseVersion(version) ?? { numbers: [0, 0, 0], before: [] };
  const [major, minor, patch] = numbers;
  if (step === "major") return `${major + 1}.0.0`;
  if (step === "minor") return `${major}.${minor + 1}.0`;
  return `${major}.${minor}.${before.length > 0 ? patch : patch + 1}`;
}

/** The version that is due: the one that package.json has, as long as none as high was released, and else the next minor one. */
export function dueVersion(current: string, released: readonly string[]): string {
  const [last] = released.toSorted(compareVersions).toReversed();
  return last !== undefined && compareVersions(current, last) <= 0 ? bumped(last, "minor") : current;
}

/**
 * Why a version cannot be the next one, in a sentence; undefined where it can. It may be the one that package.json has
 * already, as long as that was not released.
 */
export function versionTrouble(asked: string, current: string, released: readonly string[]): string | undefined {
  if (parseVersion(asked) === undefined) return `${asked} is no version: one is written like 1.0.0 or 1.1.0-rc.1.`;
  const [last] = released.toSorted(compareVersions).toReversed();
  if (last !== undefined && compareVersions(asked, last) <= 0) {
    return asked === last
      ? `${asked} is released already: there is a tag v${last}.`
      : `${asked} is not higher than ${last}, which is released.`;
  }
  if (compareVersions(asked, current) < 0) return `${asked} is lower than ${current}, the version of package.json.`;
  return undefined;
}
