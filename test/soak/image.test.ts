/**
 * The steps of docs/operate/Dockerfile, run in a scratch folder, since there is not always a Docker to build with: the
 * dependencies it installs are enough, the code can be read-only, and the health check tells up from down. What it cannot
 * show is that the base image has what is needed.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { commandOf, environmentOf, readDockerfile } from "../support/readers/dockerfile.ts";
import { production } from "../support/service/environment.ts";
import { bytesBelow } from "../support/processes/packages.ts";
import { cleanEnv } from "../support/processes/process.ts";

const root = join(import.meta.dirname, "../..");
const scratch = mkdtempSync(join(tmpdir(), "otpd-image-"));
afterAll(() => {
  execFileSync("chmod", ["-R", "u+w", scratch]);
  rmSync(scratch, { recursive: true });
});
const steps = readDockerfile();
/** A path of the image, within the scratch folder of its stage. */
const at = (stage: string, path: string) => join(scratch, stage, path);

/** Copies, makes and installs as the steps say. */
function build(): void {
  let folder = "/";
  for (const { stage, instruction, text } of steps) {
    const words = text.split(" ");
    if (instruction === "FROM") mkdirSync(at(stage, "/"), { recursive: true });
    if (instruction === "WORKDIR") mkdirSync(at(stage, (folder = text)), { recursive: true });
    if (instruction === "COPY") {
      const paths = words.filter((word) => !word.startsWith("--"));
      const target = paths.pop() ?? "";
      const from = /--from=(\w+)/.exec(text)?.[1];
      const isFolder = target.endsWith("/");
      for (const path of paths) {
        const source = from === undefined ? join(root, path) : at(from, path);
        const into = target.startsWith("/") ? at(stage, target) : join(at(stage, folder), target);
        cpSync(source, isFolder ? join(into, basename(path)) : into, { recursive: true });
      }
    }
    if (instruction === "RUN") {
      const command = text.replaceAll(/(?<= )\/(?=\w)/g, at(stage, "/"));
      execFileSync("sh", ["-c", command], { cwd: at(stage, folder), stdio: ["ignore", "ignore", "inherit"] });
    }
  }
}

test("what the steps make serves from a folder that it cannot write to, and the health check tells", async () => {
  build();
  const last = steps.at(-1)?.stage ?? "";
  const [app, data] = [at(last, "/app"), at(last, "/data")];
  execFileSync("chmod", ["-R", "a-w,a+rX", app]);
  for (const folder of [scratch, at(last, "/")]) chmodSync(folder, 0o755);
  // To root nothing is read-only.
  const isRoot = process.getuid?.() === 0;
  const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
  if (isRoot) chownSync(data, 65_534, 65_534);
  const packages = join(app, "node_modules");
  expect(readdirSync(packages).filter((name) => /^@?typescript$|^node-linux/.test(name))).toEqual([]);
  expect(bytesBelow(packages)).toBeLessThanOrEqual(80_000_000);
  const written = spawnSync("touch", [join(app, "src", "new")], user);
  expect(written.status).toBe(1);

  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const port = `${(probe.address() as AddressInfo).port}`;
  probe.close();
  const env = cleanEnv({
    ...environmentOf(steps),
    ...production,
    OTP_HOST: "127.0.0.1",
    OTP_PORT: port,
    OTP_DATABASE_URL: `file:${data}/otp.db`,
    HOME: "/nonexistent",
  });
  const [, ...check] = commandOf(steps, "HEALTHCHECK");
  const isHealthy = () => spawnSync(process.execPath, check, { env, ...user }).status === 0;
  expect(isHealthy()).toBe(false);
  const [, ...args] = [...commandOf(steps, "ENTRYPOINT"), ...commandOf(steps, "CMD")];
  const server = spawn(process.execPath, args, { cwd: app, env, stdio: ["ignore", "ignore", "pipe"], ...user });
  const gone = once(server, "close");
  let log = "";
  await new Promise<void>((resolve) => {
    server.stderr.on("data", (chunk: Buffer) => {
      log += chunk.toString("utf8");
      if (log.includes('"listening"')) resolve();
    });
    void gone.then(() => resolve());
  });
  expect(log).toContain('"listening"');
  expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200);
  expect(isHealthy()).toBe(true);
  server.kill("SIGTERM");
  expect(await gone).toEqual([0, null]);
  expect(isHealthy()).toBe(false);
});
