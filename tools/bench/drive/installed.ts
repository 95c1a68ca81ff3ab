/**
 * `otpd serve` as it is installed: from a clone, which runs its sources, and from the package, which holds what was built of
 * them and is started as docs/operate has it.
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../../test/support/network/ports.ts";
import { launcher } from "../../../test/support/processes/process.ts";
import { openClient } from "./load.ts";
import { end, spawnServer } from "./processes.ts";
import { productionEnv, type Place, type Prepared } from "./prepared.ts";

/** A way to start it. */
export interface Installed {
  readonly name: string;
  readonly file: string;
  readonly nodeArgs: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What starts its command, where that is not done at once. */
  readonly prefix?: readonly string[];
}

export interface Started {
  readonly pid: number;
  readonly port: number;
  /** From the start of the process to its first answer to a call with a key. */
  readonly firstAnswerMs: number;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

const root = join(import.meta.dirname, "../../..");

/** As `npm start` has it. */
export function fromClone(): Installed {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
  const nodeArgs = scripts.start.split(" ").filter((word) => word.startsWith("--"));
  return { name: "npm start in a clone", file: launcher, nodeArgs, env: {} };
}

/** Builds the package, and has it in a folder as npm would; with what the systemd unit says. */
export function fromPackage({ folder }: Place): Installed {
  execFileSync(process.execPath, [join(root, "tools/build.ts")], { stdio: "ignore" });
  const installed = join(folder, "installed");
  mkdirSync(join(installed, "src"), { recursive: true });
  copyFileSync(launcher, join(installed, "src/otpd.js"));
  // A copy: whoever builds next takes away what is there now.
  cpSync(join(root, "dist"), join(installed, "dist"), { recursive: true });
  for (const name of ["node_modules", "package.json"]) symlinkSync(join(root, name), join(installed, name));
  const unit = readFileSync(join(root, "docs/operate/otpd.service"), "utf8");
  const nodeArgs = [...unit.matchAll(/^ExecStart=.*$/gm)].flatMap(([line]) => line.match(/--\S+/g) ?? []);
  const malloc = [...unit.matchAll(/^Environment=(MALLOC_\w+)=(.*)$/gm)].map(([, name = "", value = ""]) => [
    name,
    value,
  ]);
  return {
    name: "the package under systemd",
    file: join(installed, "src/otpd.js"),
    nodeArgs,
    env: Object.fromEntries(malloc) as Record<string, string>,
  };
}

/** A start that takes longer has failed. */
const startMaxMs = 30_000;
const pollMs = 2;

/**
 * Starts it, and resolves with the first answer: that of a read of `id`, or of what is not there. `more` is configuration
 * beside that of a production server.
 */
export async function startInstalled(
  { folder }: Place,
  { file, nodeArgs, env, prefix = [] }: Installed,
  { url, key }: Prepared,
  { id, more = {} }: { readonly id?: string | undefined; readonly more?: Readonly<Record<string, string>> } = {},
): Promise<Started> {
  const port = await freePort();
  const startMs = performance.now();
  const given = { ...productionEnv(url), ...env, ...more, OTP_PORT: `${port}` };
  const child = spawnServer(folder, [...nodeArgs, file, "serve"], given, prefix);
  while (performance.now() - startMs < startMaxMs) {
    const client = openClient(port, key);
    try {
      const { status } = await client.get(`/v1/otp/${id ?? "AAAAAAAAAAAAAAAAAAAAAA"}`);
      const firstAnswerMs = performance.now() - startMs;
      if (status !== (id === undefined ? 404 : 200)) throw new Error(`the first answer was ${status}`);
      return { pid: child.pid ?? 0, port, firstAnswerMs, stop: (signal = "SIGTERM") => end(child, signal) };
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ECONNREFUSED") throw error;
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    } finally {
      client.close();
    }
  }
  await end(child, "SIGKILL");
  throw new Error("the service did not answer in time");
}
