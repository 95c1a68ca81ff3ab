/**
 * Bundles what browsers get: the demo page's script, the console's script and style, and the form to embed, below a folder. It is
 * generated code like the rest of `gen/`: committed, so that an installation serves the pages without a build and without the
 * libraries.
 */
import { build } from "esbuild";
import { join } from "node:path";
import { renewDocument, writeElement } from "./element.ts";

const root = join(import.meta.dirname, "../..");

const libraries =
  "@connectrpc/connect and connect-web (Apache-2.0), and\n * @bufbuild/protobuf (Apache-2.0 AND BSD-3-Clause)";

const bundles = [
  { from: "src/demo/page.ts", to: "demo/page.js", holds: undefined },
  { from: "src/console/main.ts", to: "console/console.js", holds: `${libraries}, and uPlot (MIT)` },
  { from: "src/console/console.css", to: "console/console.css", holds: "the style of uPlot (MIT)" },
];

const alike = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
} as const;

/** The same sources give the same bytes. */
export async function bundleForBrowsers(folder: string): Promise<void> {
  for (const { from, to, holds } of bundles) {
    const credits = holds === undefined ? "" : ` Holds ${holds},\n * with the copyright of their authors.`;
    const notice = `/*\n * Generated from ${from} by "npm run generate".${credits}\n */`;
    await build({ ...alike, entryPoints: [from], outfile: join(folder, to), banner: { js: notice, css: notice } });
  }
  const notice = "/* <otp-form> of otpd, Apache-2.0. Generated from src/elements/. */";
  const entryPoints = ["src/elements/otp-form.ts"];
  const { outputFiles } = await build({ ...alike, entryPoints, write: false, banner: { js: notice } });
  writeElement(folder, outputFiles[0]?.contents ?? new Uint8Array());
}

if (import.meta.main) {
  await bundleForBrowsers(join(root, "gen"));
  renewDocument();
}
