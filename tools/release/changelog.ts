/**
 * The changelog at a release: what was not released yet becomes the section of a version, dated.
 */
import { Refusal } from "./processes.ts";

export interface Section {
  /** Without its `## `. */
  readonly heading: string;
  /** What stands below the heading, without blank lines around it. */
  readonly body: string;
}

const unreleased = /^(?:unreleased|.*, not released yet)$/i;

/** The sections, in order. */
export function sectionsOf(changelog: string): Section[] {
  return changelog
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const end = section.indexOf("\n");
      return { heading: section.slice(0, end).trim(), body: section.slice(end).trim() };
    });
}

/** The section of a version; undefined without one. */
export function sectionOf(changelog: string, version: string): Section | undefined {
  return sectionsOf(changelog).find(({ heading }) => heading === version || heading.startsWith(`${version}, `));
}

/**
 * The changelog with a dated section of the version: the one that is there, or the one of what is not released yet. Throws
 * a sentence where there is neither, or nothing in it.
 */
export function dated(changelog: string, version: string, date: string): string {
  const [first] = sectionsOf(changelog);
  const isWaiting = first !== undefined && unreleased.test(first.heading);
  const section = isWaiting ? first : sectionOf(changelog, version);
  if (section === undefined) {
    throw new Refusal(`docs/changelog.md has no section of ${version}, and none that begins with "## Unreleased".`);
  }
  if (section.body === "") throw new Refusal(`The section "${section.heading}" of docs/changelog.md is empty.`);
  return changelog.replace(`## ${section.heading}\n`, `## ${isWaiting ? `${version}, ${date}` : section.heading}\n`);
}
