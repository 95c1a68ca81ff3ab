/**
 * Bundles the demo page's script, with the Connect client in it, to `demo/page.js` below a folder. It is generated code
 * like the rest of `gen/`: committed, so that an installation serves the page without a build and without the libraries.
 */
import { build } from "esbuild";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** The same sources give the same bytes. */
export async function bundleDemo(folder: string): Promise<void> {
  await build({
    absWorkingDir: root,
    entryPoints: ["src/demo/page.ts"],
    outfile: join(folder, "demo/page.js"),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    banner: {
      js: '// Generated from src/demo by "npm run generate". Holds @connectrpc/connect and connect-web (Apache-2.0), and\n// @bufbuild/protobuf (Apache-2.0 AND BSD-3-Clause), with the copyright of their authors.',
    },
  });
}

if (import.meta.main) await bundleDemo(join(root, "gen"));
