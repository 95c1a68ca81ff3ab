/**
 * The packages of the repository, packed and installed by npm as their users do. npm asks its registry about the packages
 * that they need, and mostly finds these in the cache that `npm ci` filled.
 */
import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { cleanEnv } from "./process.ts";

const root = join(import.meta.dirname, "../../..");

export interface Packed {
  /** The tarball. */
  readonly path: string;
  readonly bytes: number;
  /** What is in it. */
  readonly files: readonly string[];
}

/** Runs npm in a folder, and resolves with its output. Scripts and programs that it starts find this Node first. */
export async function npm(cwd: string, args: readonly string[], path = process.env["PATH"] ?? ""): Promise<string> {
  const env = cleanEnv({ PATH: path, npm_config_audit: "false", npm_config_fund: "false" });
  const { stdout } = await promisify(execFile)("npm", [...args, "--silent", "--prefer-offline"], { cwd, env });
  return stdout;
}

/** Packs the server, which builds all of `dist/`. */
export function packServer(into: string): Promise<Packed> {
  return pack(".", into);
}

/** Packs the client that was built with the server. */
export function packClient(into: string): Promise<Packed> {
  return pack("./dist/client", into);
}

async function pack(what: string, into: string): Promise<Packed> {
  const output = await npm(root, ["pack", what, "--json", "--pack-destination", into]);
  const [packed] = JSON.parse(output) as { filename: string; size: number; files: { path: string }[] }[];
  if (packed === undefined) throw new Error(`npm packed nothing: ${output}`);
  return {
    path: join(into, packed.filename),
    bytes: packed.size,
    files: packed.files.map(({ path }) => path),
  };
}

/** What the files below a folder hold, in bytes. */
export function bytesBelow(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
