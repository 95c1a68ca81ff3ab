/**
 * The server's package on the oldest Node that it promises to run on, which is fetched for the purpose: npm installs it
 * there, and it serves.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { npm, packServer } from "../support/processes/packages.ts";
import { firstKey, startOtpd } from "../support/processes/process.ts";

test("the package serves on Node 22.18", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "otpd-package-"));
  onTestFinished(() => rmSync(scratch, { recursive: true }));
  const runtime = `node-linux-${process.arch}`;
  await npm(scratch, ["install", "--prefix", scratch, `${runtime}@22.18.0`]);
  const bin = join(scratch, "node_modules", runtime, "bin");
  const { path } = await packServer(scratch);
  await npm(scratch, ["install", "--global", "--prefix", scratch, path], `${bin}${delimiter}${process.env["PATH"]}`);
  const otpd = await startOtpd(scratch, {}, ["serve"], { file: join(scratch, "bin/otpd"), node: join(bin, "node") });
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
