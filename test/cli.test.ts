/**
 * The command `otpd` as an operator types it, in processes of its own, alone and beside a running server.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runIn } from "./support/service/command-line.ts";
import { makeDatabase } from "./support/databases/empty-database.ts";
import { cleanEnv, runOtpd, startOtpd, type Otpd } from "./support/processes/process.ts";

const root = join(import.meta.dirname, "..");
const keyShape = /^otp_live_[0-9A-Za-z]{10}_[0-9A-Za-z]{38}$/;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "otpd-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface MadeKey {
  readonly id: string;
  readonly key: string;
  readonly name: string;
  readonly scopes: string[];
  readonly expire_time: string | null;
}

async function makeKey(...args: string[]): Promise<MadeKey> {
  const { output } = await runIn(folder, ["keys", "create", "--json", ...args]);
  return JSON.parse(output) as MadeKey;
}

async function listKeys(): Promise<Record<string, unknown>[]> {
  const { output } = await runIn(folder, ["keys", "list", "--json"]);
  return JSON.parse(output) as Record<string, unknown>[];
}

describe("keys", () => {
  beforeAll(async () => {
    await makeDatabase(join(folder, "data/otp.db"));
  });

  test("create prints the key once, and says what it may do", async () => {
    const { code, output, errors } = await runIn(folder, ["keys", "create"]);
    expect(output).toMatch(
      /^The API key, shown this once:\n\n {2}otp_live_(\w{10})_\w{38}\n\nid \1, may send, verify, read, cancel, does not expire\n$/,
    );
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
  });

  test("create --json prints one object with id, key, name and scopes", async () => {
    const { output } = await runIn(folder, ["keys", "create", "--json"]);
    const made = JSON.parse(output) as MadeKey;
    expect(made.key).toMatch(keyShape);
    expect(made).toEqual({
      id: made.key.slice("otp_live_".length, "otp_live_".length + 10),
      key: made.key,
      kind: "live",
      tenant: "default",
      name: "",
      scopes: ["send", "verify", "read", "cancel"],
      origins: [],
      channels: null,
      app: false,
      expire_time: null,
    });
    expect(output).toBe(`${JSON.stringify(made)}\n`);
  });

  test("create takes a name, scopes in any order, and an expiry", async () => {
    const args = ["--name", "the shop's checkout", "--scopes", "verify, send", "--expires", "2100-01-31"];
    expect(await makeKey(...args)).toMatchObject({
      name: "the shop's checkout",
      scopes: ["send", "verify"],
      expire_time: "2100-01-31T00:00:00.000Z",
    });
  });

  test("an expiry may be a time from now", async () => {
    const before = Date.now();
    const { expire_time } = await makeKey("--expires", "90d");
    const days = (Date.parse(String(expire_time)) - before) / 86_400_000;
    expect(days).toBeGreaterThanOrEqual(90);
    expect(days).toBeLessThan(90.01);
  });

  test("create --test makes a key for the sandbox, and list shows which kind it is", async () => {
    const { id, key } = await makeKey("--test", "--name", "ci");
    expect(key).toBe(`otp_test_${id}_${key.slice(-38)}`);
    expect(await listKeys()).toContainEqual(expect.objectContaining({ id, kind: "test", name: "ci" }));
    expect((await runIn(folder, ["keys", "list"])).output).toMatch(
      new RegExp(`^${id} +test +default +ci +active`, "m"),
    );
  });

  test("list shows every key and no secret", async () => {
    const { id, key } = await makeKey("--name", "listed", "--scopes", "read");
    expect(await listKeys()).toContainEqual({
      id,
      kind: "live",
      tenant: "default",
      name: "listed",
      scopes: ["read"],
      origins: [],
      channels: null,
      app: false,
      state: "active",
      create_time: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      expire_time: null,
      last_use_time: null,
      last_refuse_time: null,
    });
    const { output } = await runIn(folder, ["keys", "list"]);
    expect(output).toMatch(
      /^ID +KIND +TENANT +NAME +STATE +SCOPES +LAST USED +EXPIRES +TRIED SINCE +CHANNELS +ORIGINS\n/,
    );
    expect(output).toMatch(new RegExp(`^${id} +live +default +listed +active +read +never +never +- +- +-$`, "m"));
    const secret = key.slice(-38);
    expect(output + JSON.stringify(await listKeys())).not.toContain(secret);
  });

  test("revoke says so, and a key may be revoked twice", async () => {
    const { id } = await makeKey();
    const revoked = { code: 0, output: `Revoked ${id}.\n`, errors: "" };
    expect(await runIn(folder, ["keys", "revoke", id])).toEqual(revoked);
    expect(await runIn(folder, ["keys", "revoke", id])).toEqual(revoked);
    expect(await listKeys()).toContainEqual(expect.objectContaining({ id, state: "revoked" }));
  });

  test("revoke fails for an id that is not there, and repeats no secret pasted in its place", async () => {
    const { key } = await makeKey();
    const { code, output, errors } = await runIn(folder, ["keys", "revoke", key]);
    expect({ code, output }).toEqual({ code: 1, output: "" });
    const [, , id] = key.split("_");
    expect(errors).toBe(`That is a whole API key, and a secret. Its id alone revokes it: otpd keys revoke ${id}\n`);
    const ofSecret = await runIn(folder, ["keys", "revoke", key.slice(-38)]);
    expect(ofSecret).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/^That is no id of an API key/) as string,
    });
    expect(ofSecret.errors).not.toContain(key.slice(-38, -28));
    expect(await runIn(folder, ["keys", "revoke", "AAAAAAAAAA"])).toMatchObject({
      code: 1,
      errors: "There is no API key AAAAAAAAAA.\n",
    });
  });

  test("list of an empty database says how to make one", async () => {
    const elsewhere = join(folder, "elsewhere");
    await makeDatabase(join(elsewhere, "data/otp.db"));
    const { code, output } = await runIn(elsewhere, ["keys", "list"]);
    expect({ code, output }).toEqual({
      code: 0,
      output: "There are no API keys. Make one: otpd keys create --name me\n",
    });
  });
});

describe("beside a running server", () => {
  let otpd: Otpd;
  beforeAll(async () => {
    otpd = await startOtpd(folder);
  });
  afterAll(() => otpd.end());

  async function call(path: string, key: string, body: Record<string, unknown>) {
    const response = await fetch(`${otpd.url}/v1/otp/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = (await response.json()) as Record<string, unknown>;
    return { status: response.status, ...answer };
  }

  test("a key counts from the moment it is made, for its scopes alone", async () => {
    const { id, key } = await makeKey("--scopes", "send");
    expect(await call("send", key, { phone: "+31612345678" })).toMatchObject({ status: 200, state: "STATE_PENDING" });
    expect(await call("verify", key, { request_id: "x", code: "123456" })).toMatchObject({
      status: 403,
      reason: "SCOPE_MISSING",
    });
    // The note of a use is written behind the answer, and at most once a minute.
    const used = expect.objectContaining({ id, last_use_time: expect.stringMatching(/Z$/) as string }) as object;
    await expect.poll(listKeys).toContainEqual(used);
  });

  test("a revoked key is refused from the next call on", async () => {
    const { id, key } = await makeKey();
    expect(await call("send", key, { phone: "+31612345679" })).toMatchObject({ status: 200 });
    await runIn(folder, ["keys", "revoke", id]);
    expect(await call("send", key, { phone: "+31612345679" })).toMatchObject({
      status: 401,
      reason: "API_KEY_REVOKED",
    });
  });

  test("a key is refused once its time is over", async () => {
    const { id, key } = await makeKey("--expires", "1s");
    const refused = { status: 401, reason: "API_KEY_EXPIRED" };
    await expect.poll(() => call("verify", key, { request_id: "x", code: "123456" })).toMatchObject(refused);
    expect(await listKeys()).toContainEqual(expect.objectContaining({ id, state: "expired" }));
  });

  test("migrate finds the database up to date", async () => {
    const upToDate = { code: 0, output: "The database is up to date.\n", errors: "" };
    expect(await runIn(folder, ["migrate"])).toEqual(upToDate);
  });
});

describe("a command that reads", () => {
  const commands = [
    "migrate",
    "prune",
    "keys list",
    "keys create",
    "tenants list",
    "webhooks list",
    "destinations list",
    "destinations explain +31612345678",
    "phones show +31612345678",
    "phones reset +31612345678",
    "webhooks add https://example.com/events",
    "webhooks rotate-secret we_J2ARjUQwcNofsT_m",
  ];

  test.each(commands)("otpd %s makes no database: it says where it looked", async (command) => {
    const elsewhere = mkdtempSync(join(folder, "none-"));
    const nothing = "Nothing was made: only otpd serve, restore and copy make a database.\n";
    expect(await runIn(elsewhere, command.split(" "), { OTP_DATABASE_URL: "file:typo/x.db" })).toEqual({
      code: 1,
      output: "",
      errors: `There is no database ${elsewhere}/typo/x.db. OTP_DATABASE_URL names it. ${nothing}`,
    });
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  test.each([
    ["a folder", "file:.", "it is a folder"],
    ["an empty file", "file:empty", "the file is empty"],
    ["below a file", "file:empty/otp.db", "There is no database"],
  ])("is told of %s in plain words", async (_, url, says) => {
    const elsewhere = mkdtempSync(join(folder, "none-"));
    writeFileSync(join(elsewhere, "empty"), "");
    const { code, output, errors } = await runIn(elsewhere, ["keys", "list"], { OTP_DATABASE_URL: url });
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toContain(says);
    expect(errors).toContain(elsewhere);
    expect(errors).not.toMatch(/EISDIR|ENOTDIR|^ {4}at /m);
    expect(statSync(join(elsewhere, "empty")).size).toBe(0);
  });
});

describe("serve makes the database", () => {
  test("and its folder, for their owner alone, and no other", async () => {
    const elsewhere = mkdtempSync(join(folder, "serve-"));
    const otpd = await startOtpd(elsewhere, { OTP_DATABASE_URL: "file:other/name.db" });
    await otpd.end();
    expect(readdirSync(elsewhere)).toEqual(["other"]);
    expect(statSync(join(elsewhere, "other")).mode & 0o777).toBe(0o700);
    expect(statSync(join(elsewhere, "other/name.db")).mode & 0o777).toBe(0o600);
  });
});

describe("migrate", () => {
  test.each([
    { url: "mysql://localhost/otp", says: "OTP_DATABASE_URL must be file:<path>" },
    { url: "postgres://otp:c4n4ry@127.0.0.1:1/otp", says: "the database cannot be opened: connect ECONNREFUSED" },
    { url: "file:not-a-database", says: "file is not a database" },
  ])("fails with a sentence and exit code 1 for $url", async ({ url, says }) => {
    const elsewhere = mkdtempSync(join(folder, "migrate-"));
    writeFileSync(join(elsewhere, "not-a-database"), "a text\n".repeat(200));
    const { code, output, errors } = await runIn(elsewhere, ["migrate"], { OTP_DATABASE_URL: url });
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toContain(says);
    expect(errors).not.toMatch(/^ {4}at |c4n4ry/m);
  });
});

describe("serve", () => {
  test("prints every fault of its configuration together, and exits with 1", async () => {
    const elsewhere = mkdtempSync(join(folder, "serve-"));
    const { code, output, errors } = await runOtpd(elsewhere, ["serve"], {
      OTP_PROT: "8080",
      OTP_PORT: "http",
      OTP_TTL_SECONDS: "601",
      OTP_PHONE_LIMITS: "many",
      OTP_MASTER_KEY_FILE: "/does/not/exist",
    });
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toMatch(/^otpd cannot start:\n( {2}- OTP_.*\n){5}$/);
    for (const name of ["OTP_PROT ", "OTP_PORT ", "OTP_TTL_SECONDS ", "OTP_PHONE_LIMITS ", "OTP_MASTER_KEY_FILE "]) {
      expect(errors).toContain(`  - ${name}`);
    }
    expect(errors).toContain("Did you mean OTP_PORT?");
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  test("a port that is taken is told in a sentence, before any banner or key", async () => {
    const elsewhere = mkdtempSync(join(folder, "serve-"));
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const { code, output, errors } = await runOtpd(elsewhere, ["serve"], { OTP_PORT: `${port}` });
    other.close();
    expect({ code, output, errors }).toEqual({
      code: 1,
      output: "",
      errors: `127.0.0.1:${port} is taken by another process; OTP_PORT picks another\n`,
    });
    expect((await runOtpd(elsewhere, ["keys", "list", "--json"])).output).toBe("[]\n");
    const again = await startOtpd(elsewhere);
    await again.end();
    expect(again.output()).toContain("Your API key, shown this once:");
  });

  test.each<[string, Record<string, string>, RegExp]>([
    [
      "a host of another machine",
      { OTP_HOST: "192.0.2.1" },
      /^OTP_HOST must be an address of this machine, and 192\.0\.2\.1 is none; /,
    ],
    ["a host that nobody knows", { OTP_HOST: "otpd.invalid" }, /^OTP_HOST must be .* otpd\.invalid is not known$/m],
    ["a database that is a folder", { OTP_DATABASE_URL: "file:." }, /^OTP_DATABASE_URL: \S+ (is a folder|.*)$/m],
    [
      "a database below a file",
      { OTP_DATABASE_URL: "file:text/otp.db" },
      /^OTP_DATABASE_URL: \S+ is not there: a part of its path is a file$/m,
    ],
    [
      "a database that is a text",
      { OTP_DATABASE_URL: "file:text" },
      /^OTP_DATABASE_URL: .*text.* cannot be opened: file is not a database$/m,
    ],
    [
      "no certificate",
      { OTP_TLS_CERT_FILE: "cert.pem", OTP_TLS_KEY_FILE: "text" },
      /^OTP_TLS_CERT_FILE: cert\.pem is not there$/m,
    ],
    [
      "a certificate that is none",
      { OTP_TLS_CERT_FILE: "text", OTP_TLS_KEY_FILE: "text" },
      /^OTP_TLS_CERT_FILE: text does not hold a certificate in PEM form$/m,
    ],
  ])("with %s the start is refused, names the variable, and shows and makes no key", async (_, env, says) => {
    const elsewhere = mkdtempSync(join(folder, "serve-"));
    writeFileSync(join(elsewhere, "text"), "a text\n".repeat(200));
    const { code, output, errors } = await runOtpd(elsewhere, ["serve"], { OTP_PORT: "0", ...env });
    expect(errors).toMatch(says);
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).not.toMatch(/^ {4}at |E[A-Z]{4,}:/m);
  });

  test.each(["SIGTERM", "SIGINT"] as const)("%s ends it with exit code 0", async (signal) => {
    const otpd = await startOtpd(mkdtempSync(join(folder, "serve-")));
    expect(await otpd.end(signal)).toBe(0);
    expect(otpd.errors()).toMatch(/"msg":"stopping"}\n.*"msg":"stopped"}\n$/);
  });

  test("SIGTERM to npm start ends it with exit code 0", async () => {
    const database = join(mkdtempSync(join(folder, "npm-")), "otp.db");
    const npm = spawn("npm", ["start"], {
      cwd: root,
      env: cleanEnv({ OTP_PORT: "0", OTP_DATABASE_URL: `file:${database}` }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let errors = "";
    const listening = Promise.withResolvers<void>();
    npm.stdout.resume();
    npm.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString("utf8");
      if (errors.includes('"msg":"listening"')) listening.resolve();
    });
    const closed = once(npm, "close");
    await Promise.race([listening.promise, closed]);
    npm.kill("SIGTERM");
    const [code] = (await closed) as [number | null];
    expect(errors).toContain('"msg":"stopped"');
    expect(code).toBe(0);
  });
});

test("npx --no-install otpd in the repository is this command", () => {
  const { status, stdout } = spawnSync("npx", ["--no-install", "otpd", "--version"], { cwd: root, env: cleanEnv() });
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  expect({ status, stdout: stdout.toString("utf8") }).toEqual({ status: 0, stdout: `${version}\n` });
});
