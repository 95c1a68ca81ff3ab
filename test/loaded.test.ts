/**
 * What a process loads: what it is not configured for takes no memory of it, and no time of its start. Of the sources these are
 * files; of what was built, the files whose code went into those that are loaded.
 */
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildServer, bundle } from "../tools/build/server.ts";
import { launcher, runOtpd, startOtpd } from "./support/processes/process.ts";
import { temporaryFolder } from "./support/service/world.ts";

const root = new URL("../", import.meta.url).href;
const fromSource = fileURLToPath(new URL("support/processes/from-source.ts", import.meta.url));

/** Prints what was imported, at the process's end. */
const telling = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  const urls = [];
  registerHooks({ load(url, context, next) { urls.push(url); return next(url, context); } });
  process.on("exit", () => console.error("loaded " + JSON.stringify(urls)));
`)}`;

let folder: string;
/** What went into each file that is built, by its path from the root. */
let inputsOf: ReadonlyMap<string, readonly string[]>;
beforeAll(async () => {
  folder = temporaryFolder();
  await buildServer();
  inputsOf = new Map([...(await bundle()).inputsOf].map(([path, inputs]) => [`dist/${path}`, inputs]));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The files of the repository, from its root, whose code a process has loaded. */
function filesIn(errors: string): string[] {
  const urls = JSON.parse(/^loaded (.*)$/m.exec(errors)?.[1] ?? "[]") as string[];
  const paths = urls.filter((url) => url.startsWith(root)).map((url) => url.slice(root.length));
  return paths.flatMap((path) => inputsOf.get(path) ?? [path]);
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

describe.each([
  ["the sources", fromSource],
  ["what was built", launcher],
])("%s", (_, file) => {
  /** What a server has loaded when it listens, as configured. */
  async function loadedBy(env: Record<string, string>): Promise<string[]> {
    const otpd = await startOtpd(folder, { NODE_OPTIONS: `--import=${telling}`, ...env }, ["serve"], { file });
    await otpd.end();
    return filesIn(otpd.errors());
  }

  test("a server on SQLite with a webhook loads nothing of what it is not configured for", async () => {
    const loaded = await loadedBy(production);
    expect(loaded).toContain("src/store/sqlite/open.ts");
    expect(loaded.some((path) => path.startsWith("node_modules/better-sqlite3/"))).toBe(true);
    for (const [what, pattern] of Object.entries(optional)) {
      expect([what, loaded.filter((path) => pattern.test(path))]).toEqual([what, []]);
    }
  });

  test("what is configured is loaded", async () => {
    const bird = { OTP_PROVIDERS: "bird", OTP_BIRD_API_KEY: "bk_eu1_secret", OTP_BIRD_ORIGINATOR: "Acme" };
    const loaded = await loadedBy({ ...production, ...bird, OTP_REFLECTION: "on" });
    expect(loaded.some((path) => path.startsWith("node_modules/@messagebird/sdk/"))).toBe(true);
    expect(loaded.some((path) => optional.reflection.test(path))).toBe(true);
  });

  test("a command loads its own modules, and no server", async () => {
    const { errors } = await runOtpd(folder, ["keys", "--help"], {}, [`--import=${telling}`], file);
    const loaded = filesIn(errors);
    expect(loaded).toContain("src/commands/keys.ts");
    expect(loaded.filter((path) => /src\/(server|main)\b/.test(path))).toEqual([]);
    expect(loaded.filter((path) => /src\/commands\/(doctor|copy|backup|restore|serve)/.test(path))).toEqual([]);
  });
});

/** Prints which of Node's own modules were loaded, at the process's end. */
const tellingNodes = `data:text/javascript,${encodeURIComponent(`
  process.on("exit", () => console.error("loaded " + process.moduleLoadList.filter((each) => each.startsWith("NativeModule "))));
`)}`;

test("what was built starts, and refuses by REST, without Node's own fetch", async () => {
  const env = { ...production, NODE_OPTIONS: `--import=${tellingNodes}` };
  const otpd = await startOtpd(folder, env, ["serve"], { file: launcher });
  const { status } = await fetch(`${otpd.url}/v1/otp/none`);
  await otpd.end();
  expect(status).toBe(401);
  expect(otpd.errors()).toMatch(/^loaded .*NativeModule _http_server/m);
  expect(otpd.errors()).not.toContain("undici");
});

test("the two are told apart", async () => {
  const all = (file: string) => runOtpd(folder, ["--version"], {}, [`--import=${telling}`], file);
  expect((await all(fromSource)).errors).toContain("src/cli.ts");
  expect((await all(launcher)).errors).not.toContain("src/cli.ts");
  expect((await all(launcher)).errors).toContain("dist/src/cli.js");
});
