/**
 * Builds the server before the tests where it is not built of these very files: the processes of `otpd` that they start then run
 * what is installed, and start in half the time. What is changed while they run has the later ones run the sources.
 */
import { join } from "node:path";
import { isBuilt } from "../../../src/built.js";
import { buildServer } from "../../../tools/build/server.ts";

export async function setup(): Promise<void> {
  if (!isBuilt(join(import.meta.dirname, "../../.."))) await buildServer();
}
