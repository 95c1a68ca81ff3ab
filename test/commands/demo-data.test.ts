/**
 * `otpd demo-data`, as a newcomer runs it in an empty folder, beside the server and without it; and where it is refused.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { startOtpd, type Otpd } from "../support/processes/process.ts";
import { keyText } from "../support/service/environment.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { runIn } from "../support/service/command-line.ts";

let folder: string;
let otpd: Otpd;
beforeAll(async () => {
  folder = temporaryFolder();
  otpd = await startOtpd(folder, {});
});
afterAll(async () => {
  await otpd.end();
  rmSync(folder, { recursive: true, force: true });
});

const stats = async (...args: string[]) => {
  const { output } = await runIn(folder, ["stats", "--by", "all", "--json", ...args]);
  return JSON.parse(output) as Record<string, unknown>[];
};

/** The one column of what a statement finds. */
const cells = (path: string, sql: string) => inDatabase(path, (db) => db.prepare(sql).pluck().all());

describe("demo-data", () => {
  test("fills the database beside the server, once, and what it says is what is there", async () => {
    const { code, output, errors } = await runIn(folder, ["demo-data"]);
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    const [, asked, stories] = /: (\d+) requests .*, (\d+) of them with their stories/.exec(output) ?? [];
    const rows = await stats("--from", new Date(Date.now() - 40 * 86_400_000).toISOString());
    expect(rows.map((row) => row["asked"])).toEqual([Number(asked)]);
    expect(cells(join(folder, "data/otp.db"), "SELECT count(*) FROM verifications")).toEqual([Number(stories)]);
    const again = await runIn(folder, ["demo-data"]);
    expect(again).toMatchObject({ code: 1, output: "" });
    expect(again.errors).toContain("already");
  });

  test.each([
    { why: "in production", env: { OTP_ENV: "production" }, says: "for development alone" },
    {
      why: "with a provider that sends",
      env: {
        OTP_PROVIDERS: "webhook",
        OTP_WEBHOOK_URL: "https://sms.example/send",
        OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
        OTP_ALLOWED_COUNTRIES: "NL",
      },
      says: "webhook would be used",
    },
  ])("is refused $why, and writes nothing", async ({ env, says }) => {
    const place = temporaryFolder();
    const path = join(place, "otp.db");
    await makeDatabase(path);
    const { code, errors } = await runIn(place, ["demo-data"], {
      OTP_MASTER_KEY: keyText,
      OTP_DATABASE_URL: `file:${path}`,
      ...env,
    });
    expect(code).toBe(1);
    expect(errors).toContain(says);
    expect(errors).toContain("Nothing was written.");
    expect(cells(path, "SELECT id FROM tenants")).toEqual(["default"]);
    rmSync(place, { recursive: true });
  });
});
