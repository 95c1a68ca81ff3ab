/**
 * Builds what tests start as processes of their own, before any of them. The server, where it is not built of these very files:
 * the processes of `otpd` then run what is installed, and start in half the time. What is changed while they run has the later
 * ones run the sources. And the programs of the tests themselves, each time.
 */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isBuilt } from "../../../src/built.js";
import { buildServer, bundle, readBeside, threads } from "../../../tools/build/server.ts";
import { programsFolder, sources } from "./programs.ts";

const root = join(import.meta.dirname, "../../..");

export async function setup(): Promise<void> {
  if (!isBuilt(root)) await buildServer();
  const { files } = await bundle({ ...sources, ...threads }, programsFolder);
  for (const [path, contents] of files) placed(path, (at) => writeFileSync(at, contents));
  // They read what lies beside the code, as it is now.
  for (const path of readBeside) placed(path, (at) => symlinkSync(join(root, path), at));
}

/** Has a file made for its place: whoever looks meanwhile, in another run of the tests, finds the old one or the new one. */
function placed(path: string, make: (at: string) => void): void {
  const place = join(root, programsFolder, path);
  const made = `${place}.${process.pid}`;
  mkdirSync(dirname(place), { recursive: true });
  rmSync(made, { force: true });
  make(made);
  renameSync(made, place);
}
