/**
 * The form to embed, for web pages of any site and without a key:
 *
 *   /elements/otp-form.<hash>.js   never changes, and is kept for five builds
 *   /elements/otp-form.js          is the latest
 *   /elements/integrity.json       has the hashes that a browser is to know them by
 *
 * All are in memory once, and as gzip since the first who asked. So what a stranger asks for costs the writing of it, and
 * nothing is looked up.
 */
import { readOwnFile } from "../../own-files.ts";
import { filePage } from "./file-page.ts";
import type { Page, PagesByPath } from "./pages.ts";

/** What the generator wrote beside the builds. */
interface Integrity {
  /** The path of the latest build. */
  readonly latest: string;
  /** For each build, the latest first, by its path: what to write as `integrity`. */
  readonly builds: Readonly<Record<string, string>>;
}

/** For web pages of other sites, also those that isolate themselves from other origins. */
const forAll = {
  "access-control-allow-origin": "*",
  "cross-origin-resource-policy": "cross-origin",
  "x-content-type-options": "nosniff",
};
const forEver = "public, max-age=31536000, immutable";
const askAgain = "public, no-cache";

export function createElementPages(): PagesByPath {
  const text = readOwnFile("gen/elements/integrity.json").toString();
  const { latest, builds } = JSON.parse(text) as Integrity;
  const script = "text/javascript; charset=utf-8";
  const files = new Map(Object.keys(builds).map((path) => [path, readOwnFile(`gen${path}`)]));
  const pages = new Map([...files].map(([path, body]) => [path, pageOf(script, body, forEver)]));
  const body = files.get(latest);
  if (body === undefined) throw new Error(`gen${latest} is not among the builds`);
  pages.set("/elements/otp-form.js", pageOf(script, body, askAgain));
  pages.set("/elements/integrity.json", pageOf("application/json", Buffer.from(text), askAgain));
  return pages;
}

function pageOf(type: string, body: Buffer, caching: string): Page {
  return { ...filePage({ type, body, headers: { ...forAll, "cache-control": caching } }), isPublic: true };
}
