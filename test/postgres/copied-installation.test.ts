/**
 * `otpd copy`, as an operator runs it on an installation that was in use: what was begun on SQLite goes on on PostgreSQL.
 * Its refusals and its faults are in test/postgres/copy.test.ts.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { copiedTables, followingTables, sqliteOnlyColumns } from "../../src/store/move/copy.ts";
import type { Database } from "../../src/store/open.ts";
import { lacks } from "../support/machine.ts";
import { addEnded } from "../support/databases/backlog.ts";
import { runHere } from "../support/service/command-line.ts";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { ask, makeInstallation, type Installation } from "../support/databases/installation.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { cleanEnv, firstKey, launcher, startOtpd } from "../support/processes/process.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

/** A database on the project's server. */
async function emptyTarget(): Promise<string> {
  const url = await newDatabase();
  if (url === undefined) throw new Error("this project has no PostgreSQL");
  return url;
}

/** Every row of a table, as texts that are the same on both databases. */
async function rowsOf(database: Database, table: string): Promise<string[]> {
  const text = (cell: unknown) => (Buffer.isBuffer(cell) ? cell.toString("hex") : String(cell));
  return (await select(database, `SELECT * FROM ${table}`))
    .map((row) =>
      JSON.stringify(
        Object.entries(row)
          .filter(([name]) => !sqliteOnlyColumns.includes(`${table}.${name}`))
          .map(([name, cell]) => `${name} ${text(cell)}`)
          .toSorted(),
      ),
    )
    .toSorted();
}

let from: Installation;
let url: string;
let copied: Awaited<ReturnType<typeof runHere>>;
beforeAll(async () => {
  from = await makeInstallation();
  url = await emptyTarget();
  vi.stubEnv("OTP_DATABASE_URL", `file:${from.path}`);
  copied = await runHere(["copy", "--to", url]);
});
afterAll(() => rmSync(from.folder, { recursive: true }));

describe("a copy", () => {
  test("has every row of every table, byte for byte, and counts them", async () => {
    const shown = new Map(
      [...copied.output.matchAll(/^(\w+) +(\d+) +(\d+)$/gm)].map(([, table, rows, arrived]) => [
        table,
        [rows, arrived],
      ]),
    );
    for (const table of [...copiedTables, ...followingTables]) {
      const rows = await rowsOf({ kind: "sqlite", path: from.path }, table);
      expect({ table, rows: rows.length }).not.toEqual({ table, rows: 0 });
      expect(await rowsOf({ kind: "postgres", url }, table)).toEqual(rows);
      if (followingTables.some((each) => each === table)) continue;
      expect({ table, shown: shown.get(table) }).toEqual({ table, shown: [`${rows.length}`, `${rows.length}`] });
    }
    expect(copied.code).toBe(0);
  });

  test("says what to do next, and never the password", () => {
    const { host, pathname } = new URL(url);
    const to = `postgres://${host}${pathname}`;
    expect(copied.output).toMatch(
      new RegExp(`\n\nMoved \\d+ rows from ${from.path} to ${to}\\.\n\nNext:\n- Set OTP_DATABASE_URL,`),
    );
    expect(copied.output + copied.errors).not.toContain(new URL(url).password + "@");
  });

  test("numbers what comes after it on from where SQLite was", async () => {
    const [row] = await select(
      { kind: "postgres", url },
      `INSERT INTO prefix_decisions (tenant, prefix, kind, at_ms, matured, verified, refused, enforced)
       VALUES ('default', '+1', 0, 1, 0, 0, 0, 0) RETURNING id`,
    );
    expect(row).toEqual({ id: "42" });
  });
});

describe("the service on the copy", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld({ ...from.env, OTP_DATABASE_URL: url }, from.system);
  });
  afterAll(() => world.stop());

  const call = (
    ...[rpc, message, headers]: [...(Parameters<typeof ask> extends [string, string, ...infer Rest] ? Rest : never)]
  ) => ask(world.url, from.key, rpc, message, headers);

  test("verifies a request that was pending, for the key that was made before, and that once", async () => {
    const { request_id, code, phone } = from.pending;
    expect((await call("VerifyOtp", { request_id, code })).value).toMatchObject({ state: "STATE_VERIFIED", phone });
    expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "OTP_ALREADY_VERIFIED" });
  });

  test("verifies nothing again that was verified before", async () => {
    const { request_id, code } = from.verified;
    expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "OTP_ALREADY_VERIFIED" });
  });

  test("counts wrong codes on: after three and two more a request is locked", async () => {
    const { request_id, code } = from.guessed;
    const guess = (step: number) => call("VerifyOtp", { request_id, code: wrongCode(code, step) });
    expect(await guess(4)).toMatchObject({ reason: "CODE_MISMATCH", attemptsRemaining: 1 });
    expect(await guess(5)).toMatchObject({ reason: "CODE_MISMATCH", attemptsRemaining: 0 });
    expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "OTP_LOCKED" });
  });

  test("counts limits on: what was used up stays so, and what was half used has the rest", async () => {
    const send = async (phone: string) => (await call("SendOtp", { phone })).reason ?? "sent";
    expect(await send(from.exhausted)).toBe("PHONE_RATE_LIMITED");
    const sends = [await send(from.halfUsed), await send(from.halfUsed), await send(from.halfUsed)];
    expect(sends).toEqual(["sent", "sent", "PHONE_RATE_LIMITED"]);
  });

  test("answers a repeated call as the first was answered", async () => {
    const { message, answer } = from.repeated;
    const { value, headers } = await call("SendOtp", message, { "idempotency-key": "once" });
    expect([value, headers.get("idempotency-replayed")]).toEqual([answer, "true"]);
  });

  test("knows the operator's lists, the tenants, and the origins of publishable keys", async () => {
    expect(await call("SendOtp", { phone: from.blocked })).toMatchObject({ reason: "DESTINATION_BLOCKED" });
    const { request_id, code } = from.ofAcme;
    expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "REQUEST_NOT_FOUND" });
    const verified = await ask(world.url, from.acmeKey, "VerifyOtp", { request_id, code });
    expect(verified.value).toMatchObject({ state: "STATE_VERIFIED" });
    const refused = await ask(world.url, from.goneKey, "SendOtp", { phone: newPhone() });
    expect(refused).toMatchObject({ reason: "API_KEY_REVOKED" });
    const preflight = await fetch(`${world.url}/v1/otp/verify`, {
      method: "OPTIONS",
      headers: { origin: from.origin, "access-control-request-method": "POST" },
    });
    expect(preflight.headers.get("access-control-allow-origin")).toBe(from.origin);
  });
});

describe("the SQLite file after it", () => {
  const moved =
    /was moved to postgres:\/\/127\.0\.0\.1:\d+\/postgres at .*Z: set OTP_DATABASE_URL to where it is now\n$/;

  test("is refused by a server, and by every command", async () => {
    const env = { ...from.env, OTP_DATABASE_URL: `file:${from.path}` };
    await expect(startWorld(env, from.system)).rejects.toThrow(
      /was moved to postgres:.*: set OTP_DATABASE_URL to where it is now$/,
    );
    for (const command of ["keys list", "migrate", "prune"]) {
      const { code, output, errors } = await runHere(command.split(" "));
      expect({ code, output }).toEqual({ code: 1, output: "" });
      expect(errors).toMatch(moved);
    }
  });

  test("can be copied once more to another empty database, and that is told", async () => {
    const { code, errors } = await runHere(["copy", "--to", await emptyTarget(), "--json"]);
    expect(code).toBe(0);
    expect(errors).toMatch(/was copied before, to postgres:\S+ at .*Z: what was done there is not in it\.\n/);
  });
});

test("on a pipe it prints a line for each tenth, and the counts", async () => {
  const folder = temporaryFolder();
  await addEnded(join(folder, "otp.db"), 2_000, 1);
  writeFileSync(join(folder, "target"), `${await emptyTarget()}\n`);
  vi.stubEnv("OTP_DATABASE_URL", `file:${folder}/otp.db`);
  const { code, output, errors } = await runHere(["copy", "--to-file", join(folder, "target"), "--json"]);
  expect(code).toBe(0);
  expect(errors).toBe(
    [
      " 12 %  501 of 4002 rows, verifications",
      " 25 %  1001 of 4002 rows, verifications",
      " 37 %  1501 of 4002 rows, verifications",
      " 50 %  2001 of 4002 rows, verifications",
      " 62 %  2501 of 4002 rows, messages",
      " 74 %  3001 of 4002 rows, messages",
      " 87 %  3501 of 4002 rows, messages",
      " 99 %  4001 of 4002 rows, messages",
      "100 %  4002 of 4002 rows, summing\n",
    ].join("\n"),
  );
  const { tables } = JSON.parse(output) as { tables: { table: string; rows: number }[] };
  expect(tables.filter(({ rows }) => rows > 0)).toEqual([
    { table: "tenants", rows: 1 },
    { table: "verifications", rows: 2_000 },
    { table: "messages", rows: 2_000 },
    { table: "summing", rows: 1 },
  ]);
  rmSync(folder, { recursive: true });
});

const lacksTerminal = lacks("copy on a terminal", "script");

test.skipIf(lacksTerminal)("on a terminal it shows a bar on one line, and leaves only the result", async () => {
  const folder = temporaryFolder();
  await addEnded(join(folder, "otp.db"), 600, 1);
  writeFileSync(join(folder, "target"), await emptyTarget());
  const command = [process.execPath, launcher, "copy", "--to-file", "target"].join(" ");
  const child = spawn("script", ["-qec", command, "/dev/null"], {
    cwd: folder,
    env: cleanEnv({ OTP_DATABASE_URL: "file:otp.db" }),
    stdio: ["ignore", "pipe", "inherit"],
  });
  let shown = "";
  child.stdout.on("data", (chunk: Buffer) => (shown += chunk.toString("utf8")));
  expect(await once(child, "close")).toEqual([0, null]);
  const lines = shown.split("\r\u001B[K");
  expect(lines.slice(0, -1)).toEqual([
    "",
    "[--------------------]   0 %  1 of 1202 rows, tenants",
    "[########------------]  41 %  501 of 1202 rows, verifications",
    "[##########----------]  50 %  601 of 1202 rows, verifications",
    "[##################--]  91 %  1101 of 1202 rows, messages",
    "[###################-]  99 %  1201 of 1202 rows, messages",
    "[####################] 100 %  1202 of 1202 rows, summing",
  ]);
  expect(lines.at(-1)).toMatch(/^TABLE +IN SQLITE +IN POSTGRESQL\r\n/);
  rmSync(folder, { recursive: true });
});

test("between two servers in processes of their own, by the database's own clock, and refused beside one", async () => {
  const folder = temporaryFolder();
  const target = await emptyTarget();
  writeFileSync(join(folder, "target"), target);
  const before = await startOtpd(folder);
  onTestFinished(() => void before.end("SIGKILL"));
  const key = await firstKey(before);
  const { value } = await ask(before.url, key, "SendOtp", { phone: newPhone() });
  const [, code = ""] = await before.waitFor(/│ (\d{6}) /);

  vi.stubEnv("OTP_DATABASE_URL", `file:${folder}/data/otp.db`);
  expect(await runHere(["copy", "--to", target])).toEqual({
    code: 1,
    output: "",
    errors: `Nothing was copied: a server runs on ${folder}/data/otp.db: stop it first, or what it writes from now on would be lost.\n`,
  });
  await before.end();
  const { code: exitCode, output } = await runHere(["copy", "--to", target]);
  expect(exitCode).toBe(0);
  expect(output).toContain(`- Set OTP_MASTER_KEY_FILE=${folder}/data/master.key: `);

  const after = await startOtpd(folder, { OTP_DATABASE_URL_FILE: "target", OTP_MASTER_KEY_FILE: "data/master.key" });
  onTestFinished(() => void after.end("SIGKILL"));
  const verified = await ask(after.url, key, "VerifyOtp", { request_id: String(value?.["request_id"]), code });
  expect(verified.value).toMatchObject({ state: "STATE_VERIFIED" });
  await after.end();
  rmSync(folder, { recursive: true });
});
