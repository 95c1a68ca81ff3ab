/**
 * axe-core on a page: what it finds by the rules of WCAG 2.2 A and AA and by its own best practices, also in elements' own trees.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Found {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[];
}

/** Each finding with the elements that it is about. */
export async function axeFindings(page: Page): Promise<string[]> {
  // Evaluated, and not added: the page's policy has no exception for tools.
  await page.evaluate(source);
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run(): Promise<Found> } }).axe.run(),
  );
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}
