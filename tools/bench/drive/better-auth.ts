/**
 * The peer: better-auth's phone-number plugin, installed on demand beside this repository and not among its dependencies.
 * Every choice is in its favour: users that are there already, no rate limit, no log, no telemetry, production mode.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const betterAuthVersion = "1.6.34";
/** The version that the service itself has, so that both are on the same SQLite. */
const sqliteVersion = "13.2.0";

const entry = `
export { betterAuth } from "better-auth";
export { phoneNumber } from "better-auth/plugins/phone-number";
export { toNodeHandler } from "better-auth/node";
export { getMigrations } from "better-auth/db/migration";
export { default as Sqlite } from "better-sqlite3";
`;

/**
 * Installs it where an earlier run has not; returns the path of the module that has all that its server needs. Takes the
 * npm registry, and some seconds.
 */
export function installBetterAuth(): string {
  const folder = join(tmpdir(), `otpd-bench-better-auth-${betterAuthVersion}`);
  const path = join(folder, "entry.mjs");
  if (existsSync(path)) return path;
  // Made under another name, so that what is there is whole.
  const making = `${folder}.${process.pid}`;
  mkdirSync(making);
  writeFileSync(join(making, "package.json"), `{"private":true,"type":"module"}`);
  const packages = [`better-auth@${betterAuthVersion}`, `better-sqlite3@${sqliteVersion}`];
  // Peer dependencies of frameworks that are not used here; install scripts, since the SQLite package brings its binary.
  const flags = ["--legacy-peer-deps", "--ignore-scripts", "--save-exact", "--no-audit", "--no-fund"];
  execFileSync("npm", ["install", ...flags, ...packages], { cwd: making, stdio: "ignore", timeout: 180_000 });
  writeFileSync(join(making, "entry.mjs"), entry);
  rmSync(folder, { recursive: true, force: true });
  renameSync(making, folder);
  return path;
}
