/**
 * The server's package on the oldest Node that it promises to run on, which is fetched for the purpose: npm installs it
 * there, and it serves.
 */
import { execFileSync } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { npm, packServer } from "../support/processes/packages.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";

test("the package serves on Node 22.18, from a path with blanks that is read-only, as a user without a home", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "otpd-package-"));
  onTestFinished(() => {
    execFileSync("chmod", ["-R", "u+w", scratch]);
    rmSync(scratch, { recursive: true });
  });
  const [prefix, data] = [join(scratch, "a bare machine"), join(scratch, "its data")];
  for (const folder of [prefix, data]) mkdirSync(folder);
  const runtime = `node-linux-${process.arch}`;
  await npm(scratch, ["install", "--prefix", scratch, `${runtime}@22.18.0`]);
  const bin = join(scratch, "node_modules", runtime, "bin");
  const { path } = await packServer(scratch);
  await npm(scratch, ["install", "--global", "--prefix", prefix, path], `${bin}${delimiter}${process.env["PATH"]}`);
  execFileSync("chmod", ["-R", "a-w,a+rX", prefix]);
  execFileSync("chmod", ["-R", "a+rX", scratch]);
  // To root nothing is read-only.
  const isRoot = process.getuid?.() === 0;
  const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
  if (isRoot) chownSync(data, 65_534, 65_534);
  const env = { HOME: "/nonexistent", NODE_COMPILE_CACHE: "" };
  const from = { file: join(prefix, "bin/otpd"), node: join(bin, "node"), user };
  const otpd = await startOtpd(data, env, ["serve"], from);
  onTestFinished(async () => {
    await otpd.end();
  });
  const answer = await fetch(`${otpd.url}/v1/otp/send`, {
    method: "POST",
    headers: { authorization: `Bearer ${await firstKey(otpd)}`, "content-type": "application/json" },
    body: `{"phone":"+14155552671"}`,
  });
  expect(answer.status).toBe(200);
  await otpd.waitFor(/│ \d{6} /);
});
