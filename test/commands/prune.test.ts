/** `otpd prune`, as an operator runs it: by hand, on a terminal, from a script, beside a server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { addEnded, addLapsed } from "../support/databases/backlog.ts";
import { readBook } from "../support/databases/book.ts";
import { countRows } from "../support/databases/rows.ts";
import { cleanEnv, launcher, runOtpd, startOtpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
let path: string;
let env: Record<string, string>;

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
  env = { OTP_DATABASE_URL: `file:${path}` };
});
afterEach(() => rmSync(folder, { recursive: true }));

describe("prune", () => {
  test("deletes what ended longer ago than the retention, in as many batches as it takes, and nothing else", async () => {
    await addEnded(path, 450, 73);
    await addEnded(path, 3, 71);
    expect(await runOtpd(folder, ["prune"], env)).toEqual({
      code: 0,
      output: "Deleted 450 rows, and noted 0 verifications as expired.\n",
      errors: "",
    });
    expect(await countRows({ kind: "sqlite", path }, "verifications")).toBe(3);
    expect(await countRows({ kind: "sqlite", path }, "messages")).toBe(3);
    expect(readBook(path).integrity).toBe("ok");
  });

  test("takes a shorter retention from the server's own variable", async () => {
    await addEnded(path, 5, 30);
    expect((await runOtpd(folder, ["prune", "--json"], env)).output).toBe('{"expired":0,"deleted":0}\n');
    const shorter = { ...env, OTP_RETENTION_HOURS: "24" };
    expect((await runOtpd(folder, ["prune", "--json"], shorter)).output).toBe('{"expired":0,"deleted":5}\n');
    expect(await countRows({ kind: "sqlite", path }, "verifications")).toBe(0);
  });

  test("erases the salts of codes past their life", async () => {
    await addLapsed(path, 2);
    expect((await runOtpd(folder, ["prune", "--json"], env)).output).toBe('{"expired":2,"deleted":0}\n');
    const entries = [...readBook(path).entries.values()];
    expect(entries).toEqual([
      expect.objectContaining({ state: "EXPIRED", hasSalt: false }),
      expect.objectContaining({ state: "EXPIRED", hasSalt: false }),
    ]);
  });

  test("refuses a retention that the server would refuse, and deletes nothing", async () => {
    await addEnded(path, 5, 100);
    const { code, output, errors } = await runOtpd(folder, ["prune"], { ...env, OTP_RETENTION_HOURS: "1" });
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toContain("OTP_RETENTION_HOURS must be at least 24 hours.");
    expect(await countRows({ kind: "sqlite", path }, "verifications")).toBe(5);
  });

  test("refuses an option that it does not know, and says which there are", async () => {
    const { code, errors } = await runOtpd(folder, ["prune", "--older-than", "1h"], env);
    expect(code).toBe(2);
    expect(errors).toContain("Usage: otpd prune [--json]");
  });

  test("works beside a server, which answers every call meanwhile", async () => {
    await addEnded(path, 4_000, 100);
    // Called as fast as it answers.
    const server = await startOtpd(folder, { ...env, OTP_SEND_WAIT_MS: "0", OTP_KEY_LIMIT: "none" });
    try {
      const created = await runOtpd(folder, ["keys", "create", "--json"], env);
      const { key } = JSON.parse(created.output) as { key: string };
      const pruning = { over: false };
      const pruned = runOtpd(folder, ["prune", "--json"], env).finally(() => (pruning.over = true));
      const statuses: number[] = [];
      for (let i = 0; !pruning.over; i += 1) {
        const response = await fetch(`${server.url}/v1/otp/send`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ phone: `+3161${String(i).padStart(7, "0")}` }),
        });
        await response.arrayBuffer();
        statuses.push(response.status);
      }
      expect(await pruned).toMatchObject({ code: 0, errors: "" });
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect(await countRows({ kind: "sqlite", path }, "verifications")).toBe(statuses.length);
    } finally {
      await server.end();
    }
  });
});

const lacksTerminal = lacks("prune on a terminal", "script");

test.skipIf(lacksTerminal)(
  "prune on a terminal shows how far it is on one line, and leaves only the result",
  async () => {
    await addEnded(path, 450, 73);
    const { code, shown } = await onTerminal(["prune"]);
    expect(code).toBe(0);
    const clear = "\r\u001B[K";
    const lines = shown.split(clear);
    // Three batches of 200 at most, each over the one before; then the line is cleared for the result.
    expect(lines).toEqual([
      "",
      "200 rows deleted",
      "400 rows deleted",
      "450 rows deleted",
      "Deleted 450 rows, and noted 0 verifications as expired.\r\n",
    ]);
  },
);

/** Runs a command with a pseudo-terminal for its output. */
async function onTerminal(args: string[]): Promise<{ code: number | null; shown: string }> {
  const child = spawn("script", ["-qec", [process.execPath, launcher, ...args].join(" "), "/dev/null"], {
    cwd: folder,
    env: cleanEnv(env),
    stdio: ["ignore", "pipe", "inherit"],
  });
  let shown = "";
  child.stdout.on("data", (chunk: Buffer) => (shown += chunk.toString("utf8")));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, shown };
}
