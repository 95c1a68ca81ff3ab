/**
 * What a release runs: git, and npm with the scripts of a stage. Each is waited for, and one that fails throws what it said.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";

/** Trouble that whoever releases can mend, in a sentence. */
export class Refusal extends Error {}

export function git(cwd: string, args: readonly string[], input?: string): string {
  return run("git", args, { cwd, env: process.env, input });
}

/** Whether git says yes. */
export function gitSays(cwd: string, args: readonly string[]): boolean {
  return spawnSync("git", args, { cwd, stdio: "ignore" }).status === 0;
}

/** Runs npm as it would be by hand in this folder, although another npm may have started us in another one. */
export function npm(cwd: string, args: readonly string[]): string {
  const ours =
    /^(npm_(package|lifecycle)_.*|npm_config_local_prefix|npm_command|npm_execpath|npm_node_execpath|INIT_CWD)$/;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
  return run("npm", args, { cwd, env, input: undefined });
}

/** Runs a program that the packages of this folder bring. */
export function tool(cwd: string, name: string, args: readonly string[]): string {
  return run(join(cwd, "node_modules/.bin", name), args, { cwd, env: process.env, input: undefined });
}

/** Runs a script of this folder by the Node that runs us: `npm exec` would take the machine's, which may be too old. */
export function script(cwd: string, args: readonly string[]): string {
  return run(process.execPath, args, { cwd, env: process.env, input: undefined });
}

interface Setting {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly input: string | undefined;
}

function run(program: string, args: readonly string[], { cwd, env, input }: Setting): string {
  const options = {
    cwd,
    env,
    encoding: "utf8",
    maxBuffer: 256 * 2 ** 20,
    ...(input !== undefined && { input }),
  } as const;
  const { status, stdout, stderr, error } = spawnSync(program, args, options);
  if (status === 0) return stdout;
  throw new Refusal(`${program} ${args.join(" ")} failed: ${error?.message ?? `${stderr}${stdout}`.trim()}`);
}
