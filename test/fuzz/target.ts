/**
 * The server under fire: the real command in a process of its own with its console provider, watched from outside. What
 * it prints is counted as it comes, and not kept: a long run prints more than would fit.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { cleanEnv } from "../support/processes/process.ts";

export interface Target {
  readonly port: number;
  readonly url: string;
  readonly key: string;
  /** SMS that went out so far. */
  smsCount(): number;
  /** Faults of its own that the server told its operator about. */
  readonly faults: string[];
  isAlive(): boolean;
  /** Stops it, and resolves with its exit code once all it printed was counted. */
  end(): Promise<number | null>;
}

const launcher = fileURLToPath(new URL("../../src/otpd.js", import.meta.url));

export async function startTarget(): Promise<Target> {
  const folder = mkdtempSync(join(tmpdir(), "otpd-fuzz-"));
  const env = cleanEnv({
    OTP_PORT: "0",
    // With it "/" is a page, which anybody may read whatever else is asked of it.
    OTP_DEMO: "off",
    OTP_PHONE_LIMITS: "1000@1s",
    OTP_KEY_LIMIT: "none",
    OTP_AUTH_FAILURE_LIMIT: "9999@1s",
  });
  const child = spawn(process.execPath, [launcher, "serve"], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  const { promise: listening, resolve: onPort, reject } = Promise.withResolvers<number>();
  const { promise: keyShown, resolve: onKey } = Promise.withResolvers<string>();
  const faults: string[] = [];
  let smsCount = 0;
  const printed = createInterface({ input: child.stdout });
  const errorLines = createInterface({ input: child.stderr });
  printed.on("line", (line) => {
    if (line.includes(" SMS to ")) smsCount += 1;
    const key = /^\s+(otp_live_\w+)$/.exec(line)?.[1];
    if (key !== undefined) onKey(key);
  });
  errorLines.on("line", (line) => {
    const port = /"port":(\d+),"msg":"listening"/.exec(line)?.[1];
    if (port !== undefined) onPort(Number(port));
    if (line.includes('"msg":"fault"') || !line.startsWith("{")) faults.push(line);
  });
  const allRead = Promise.all([once(printed, "close"), once(errorLines, "close")]);
  const gone = once(child, "exit") as Promise<[number | null]>;
  void gone.then(([code]) => reject(new Error(`otpd ended with ${code}: ${faults.join("\n")}`)));
  const port = await listening;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    key: await keyShown,
    smsCount: () => smsCount,
    faults,
    isAlive: () => child.exitCode === null && child.signalCode === null,
    async end() {
      if (child.exitCode === null) child.kill("SIGTERM");
      const [code] = await gone;
      await allRead;
      rmSync(folder, { recursive: true, force: true });
      return code;
    },
  };
}
