/**
 * Makes `dist/`, from which the two packages are packed: the server's JavaScript and what it reads, laid out as in the
 * repository, and `dist/client`, the package of the generated TypeScript client.
 */
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");

interface Manifest {
  readonly [field: string]: unknown;
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

function buildServer(): void {
  execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
  // What the server reads beside its code, by paths from its files; the page's script is in gen/demo, bundled.
  for (const path of [
    "package.json",
    "gen/openapi.json",
    "gen/demo",
    "gen/console",
    "gen/elements",
    "src/demo",
    "src/console",
    "src/delivery/providers/presets",
  ]) {
    cpSync(join(root, path), join(dist, path), { recursive: true, filter: (source) => !source.endsWith(".ts") });
  }
}

/** The client of `proto/` as it was compiled with the server, behind one entry; and the form to embed, behind another. */
function buildClient({ version, license, dependencies }: Manifest): void {
  const folder = join(dist, "client");
  const entry = 'export { createClient } from "@connectrpc/connect";\nexport * from "./otp/v1/otp_service_pb.js";\n';
  // What operators call is not for callers.
  cpSync(join(dist, "gen/otp/v1"), join(folder, "otp/v1"), { recursive: true });
  cpSync(join(root, "proto/otp/v1"), join(folder, "proto/otp/v1"), { recursive: true });
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  cpSync(join(root, "tools/client/README.md"), join(folder, "README.md"));
  const { latest } = JSON.parse(readFileSync(join(root, "gen/elements/integrity.json"), "utf8")) as { latest: string };
  cpSync(join(root, "gen", latest), join(folder, "otp-form.js"));
  cpSync(join(root, "tools/client/otp-form.d.ts"), join(folder, "otp-form.d.ts"));
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
      "./proto/*": "./proto/*",
    },
    dependencies: { "@bufbuild/protobuf": `^${dependencies["@bufbuild/protobuf"]}` },
    // Each transport wants the very release that it is of, and an older Node has none of ours: so any since 2.0.
    peerDependencies: { "@connectrpc/connect": "^2.0.0" },
  };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

rmSync(dist, { recursive: true, force: true });
buildServer();
buildClient(JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest);
