/**
 * Builds the package of the generated TypeScript client into `dist/client`: what `proto/` is in JavaScript, with declarations,
 * behind one entry; and the form to embed, behind another.
 */
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const folder = join(root, "dist/client");

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

export function buildClient(): void {
  rmSync(folder, { recursive: true, force: true });
  // What operators call is not for callers, and not compiled for them.
  execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
  const { version, license, dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
  const entry = 'export { createClient } from "@connectrpc/connect";\nexport * from "./otp/v1/otp_service_pb.js";\n';
  cpSync(join(root, "proto/otp/v1"), join(folder, "proto/otp/v1"), { recursive: true });
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  cpSync(join(root, "tools/client/README.md"), join(folder, "README.md"));
  const { latest } = JSON.parse(readFileSync(join(root, "gen/elements/integrity.json"), "utf8")) as { latest: string };
  cpSync(join(root, "gen", latest), join(folder, "otp-form.js"));
  for (const types of ["otp-form.d.ts", "react.d.ts"]) cpSync(join(root, "tools/client", types), join(folder, types));
  for (const name of ["index.js", "index.d.ts"]) writeFileSync(join(folder, name), entry);
  const manifest = {
    name: "@otpd/client",
    version,
    private: true,
    description: "The TypeScript client of otpd, generated from its proto files, which are in it too.",
    license,
    type: "module",
    exports: {
      ".": { types: "./index.d.ts", default: "./index.js" },
      "./otp-form": { types: "./otp-form.d.ts", default: "./otp-form.js" },
      // Types alone.
      "./react": { types: "./react.d.ts" },
      "./proto/*": "./proto/*",
    },
    dependencies: { "@bufbuild/protobuf": `^${dependencies["@bufbuild/protobuf"]}` },
    // Each transport wants the very release that it is of, and an older Node has none of ours: so any since 2.0.
    peerDependencies: { "@connectrpc/connect": "^2.0.0" },
  };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}
