/** What a process loads: what it is not configured for takes no memory of it, and no time of its start. */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launcher, runOtpd, startOtpd } from "./support/processes/process.ts";
import { temporaryFolder } from "./support/service/world.ts";

/** Prints what was imported, at the process's end. */
const telling = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  const urls = [];
  registerHooks({ load(url, context, next) { urls.push(url); return next(url, context); } });
  process.on("exit", () => console.error("loaded " + JSON.stringify(urls)));
`)}`;

let folder: string;
beforeAll(() => {
  folder = temporaryFolder();
});
afterAll(() => rmSync(folder, { recursive: true }));

const namesIn = (errors: string) => JSON.parse(/^loaded (.*)$/m.exec(errors)?.[1] ?? "[]") as string[];

/** The modules that a server has loaded when it listens, as configured. */
async function loadedBy(env: Record<string, string>): Promise<string[]> {
  const otpd = await startOtpd(folder, { NODE_OPTIONS: `--import=${telling}`, ...env });
  await otpd.end();
  return namesIn(otpd.errors());
}

const production = {
  OTP_ENV: "production",
  OTP_MASTER_KEY: Buffer.alloc(32, 1).toString("base64url"),
  OTP_ALLOWED_COUNTRIES: "NL",
  OTP_DAILY_MESSAGE_CAP: "100",
  OTP_PROVIDERS: "webhook",
  OTP_WEBHOOK_URL: "http://127.0.0.1:9/",
  OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 1).toString("base64")}`,
  OTP_DATABASE_URL: "file:loaded.db",
};
const optional = {
  PostgreSQL: /node_modules\/pg\/|src\/store\/postgres\//,
  "another provider's package": /node_modules\/(@messagebird|messagebird|jose)\//,
  reflection: /server\/rpc\/reflection\./,
  "the demo": /server\/pages\/demo\./,
  "other commands": /src\/commands\/(?!serve|command)/,
};

test("a server on SQLite with a webhook loads nothing of what it is not configured for", async () => {
  const loaded = await loadedBy(production);
  expect(loaded.some((url) => url.includes("node_modules/better-sqlite3/"))).toBe(true);
  for (const [what, pattern] of Object.entries(optional)) {
    expect([what, loaded.filter((url) => pattern.test(url))]).toEqual([what, []]);
  }
});

test("what is configured is loaded", async () => {
  const bird = { OTP_PROVIDERS: "bird", OTP_BIRD_API_KEY: "bk_eu1_secret", OTP_BIRD_ORIGINATOR: "Acme" };
  const loaded = await loadedBy({ ...production, ...bird, OTP_REFLECTION: "on" });
  expect(loaded.some((url) => url.includes("node_modules/@messagebird/sdk/"))).toBe(true);
  expect(loaded.some((url) => optional.reflection.test(url))).toBe(true);
});

test("a command loads its own modules, and no server", async () => {
  const { errors } = await runOtpd(folder, ["keys", "--help"], {}, [`--import=${telling}`]);
  const loaded = namesIn(errors);
  expect(loaded).toContain(new URL("commands/keys.ts", `file://${launcher}`).href);
  expect(loaded.filter((url) => /src\/(server|main)\b/.test(url))).toEqual([]);
  expect(loaded.filter((url) => /src\/commands\/(doctor|copy|backup|restore|serve)/.test(url))).toEqual([]);
});
