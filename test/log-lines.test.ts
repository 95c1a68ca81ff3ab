/** A server whose readers are gone or stuck goes on, and ends when it is told to. So does a command. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freePort } from "./support/network/ports.ts";
import { cleanEnv, firstKey, launcher, startOtpd } from "./support/processes/process.ts";
import { temporaryFolder } from "./support/service/world.ts";

let folder: string;
beforeEach(() => (folder = temporaryFolder()));
afterEach(() => rmSync(folder, { recursive: true }));

const send = (url: string, key: string) =>
  fetch(`${url}/v1/otp/send`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: '{"phone":"+14155552671"}',
  });

test("a server whose output nobody reads any more goes on serving, and ends at SIGTERM", async () => {
  const otpd = await startOtpd(folder);
  const key = await firstKey(otpd);
  otpd.process.stdout?.destroy();
  otpd.process.stderr?.destroy();
  const answers = [];
  for (let i = 0; i < 3; i += 1) answers.push((await send(otpd.url, key)).status);
  expect(answers).toEqual([200, 200, 200]);
  expect(await otpd.end()).toBe(0);
});

test("a server that is told to stop as its log's reader goes ends all the same", async () => {
  const otpd = await startOtpd(folder);
  otpd.process.stderr?.destroy();
  expect(await otpd.end()).toBe(0);
});

test("a reader who is stuck holds up neither calls nor the end", async () => {
  const port = await freePort();
  const child = spawn(process.execPath, [launcher, "serve"], {
    cwd: folder,
    env: cleanEnv({ OTP_PORT: `${port}` }),
    stdio: ["ignore", "ignore", "pipe"],
  });
  const url = `http://127.0.0.1:${port}`;
  await untilAnswered(`${url}/livez`, child);
  // A call's line has some 200 bytes; a pipe takes 64 KiB, and our end of it as much.
  for (let i = 0; i < 50; i += 1) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => fetch(`${url}/v1/otp/x`)));
    for (const answer of answers) {
      expect(answer.status).toBe(401);
      await answer.body?.cancel();
    }
  }
  const closed = once(child, "exit");
  child.kill("SIGTERM");
  expect(await closed).toEqual([0, null]);
});

test("a command whose reader has seen enough says nothing of it", async () => {
  const child = spawn(process.execPath, [launcher, "--help"], { env: cleanEnv(), stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString("utf8")));
  const [code] = (await once(child, "close")) as [number | null];
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
});

test("a server on a terminal ends with it", async () => {
  const port = await freePort();
  const command = `${process.execPath} ${launcher} serve`;
  const script = spawn("script", ["-qec", command, "/dev/null"], {
    cwd: folder,
    env: cleanEnv({ OTP_PORT: `${port}` }),
    stdio: ["pipe", "pipe", "inherit"],
  });
  script.stdout.resume();
  await untilAnswered(`http://127.0.0.1:${port}/livez`, script);
  const shell = childOf(script.pid);
  const server = isNode(shell) ? shell : childOf(shell);
  script.kill("SIGKILL");
  expect(await untilGone(server)).toBe("ESRCH");
});

function childOf(pid: number | undefined): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0]);
}

function isNode(pid: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(process.execPath);
}

async function untilAnswered(url: string, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const answer = await fetch(url).catch(() => undefined);
    if (answer?.status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("the server has ended");
}

/** Resolves with the code of the error by which a process that is gone is known. */
async function untilGone(pid: number): Promise<string | undefined> {
  try {
    for (;;) {
      process.kill(pid, 0);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
}
