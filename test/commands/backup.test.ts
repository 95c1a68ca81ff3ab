/** `otpd backup` and `otpd restore`, as an operator runs them: beside a server under load, and after its death. */
import Sqlite from "better-sqlite3";
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { markMoved } from "../../src/store/sqlite/moved.ts";
import { addEnded, addLapsed } from "../support/databases/backlog.ts";
import { readBook } from "../support/databases/book.ts";
import { runHere } from "../support/service/command-line.ts";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Crashable,
  type Deployment,
} from "../support/processes/crashable.ts";
import { wrongCode } from "../support/data/phones.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { runOtpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
let path: string;

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
  vi.stubEnv("OTP_DATABASE_URL", `file:${path}`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const otpd = (...args: string[]) => runHere(args);

interface Known {
  readonly sent: Set<string>;
  readonly verified: Set<string>;
}

/** Users who send and verify, each with one call under way, until told to stop. */
function startLoad(server: Crashable, deployment: Deployment, users: number) {
  const known: Known = { sent: new Set(), verified: new Set() };
  const faults: unknown[] = [];
  let stopping = false;
  let phones = 0;
  async function use() {
    while (!stopping) {
      const phone = `+3162${String((phones += 1)).padStart(7, "0")}`;
      const { id, code } = await send(server, deployment, phone);
      known.sent.add(id);
      const verified = await server.call("/v1/otp/verify", { request_id: id, code });
      if (verified?.status !== 200) faults.push(verified?.body);
      known.verified.add(id);
    }
  }
  const over = Promise.all(Array.from({ length: users }, use));
  return {
    known,
    faults,
    snapshot: (): Known => ({ sent: new Set(known.sent), verified: new Set(known.verified) }),
    stop: () => ((stopping = true), over),
  };
}

async function send(server: Crashable, deployment: Deployment, phone: string) {
  const sent = await server.call("/v1/otp/send", { phone });
  if (sent?.status !== 200) throw new Error(JSON.stringify(sent?.body));
  return { id: String(sent.body["request_id"]), code: codeIn(deployment.inbox.get(phone)?.at(-1) ?? "") };
}

const reasonOf = async (server: Crashable, act: string, body: Record<string, unknown>) =>
  (await server.call(`/v1/otp/${act}`, body))?.body["reason"];

test("a backup under load has what was acknowledged before it; restored, no used code works again", async () => {
  await addEnded(path, 8_000, 1);
  const deployment = await createDeployment(folder);
  const server = await startCrashable(deployment);
  const guessed = await send(server, deployment, "+31611111111");
  const wrong = { request_id: guessed.id, code: wrongCode(guessed.code) };
  expect(await reasonOf(server, "verify", wrong)).toBe("CODE_MISMATCH");
  const usedLater = await send(server, deployment, "+31622222222");
  for (let i = 0; i < 5; i += 1) await send(server, deployment, "+31633333333");
  expect(await reasonOf(server, "send", { phone: "+31633333333" })).toBe("PHONE_RATE_LIMITED");

  const load = startLoad(server, deployment, 4);
  await server.until(() => load.known.verified.size >= 20);
  const before = load.snapshot();
  const file = join(folder, "otp.backup");
  const backedUp = await runOtpd(folder, ["backup", file], { OTP_DATABASE_URL: `file:${path}` });
  const after = load.snapshot();
  await load.stop();
  expect(backedUp).toMatchObject({ code: 0, errors: "" });
  expect(backedUp.output).toContain("The master key is not in it: it is where the server's OTP_MASTER_KEY comes from.");
  expect(load.faults).toEqual([]);
  expect(after.verified.size).toBeGreaterThan(before.verified.size);

  expect(statSync(file).mode & 0o777).toBe(0o600);
  const names = readdirSync(folder).filter((name) => name.startsWith("otp.backup"));
  expect(names).toEqual(["otp.backup"]);
  const bytes = readFileSync(file);
  const key = Buffer.alloc(32, 7);
  expect([key, key.toString("base64url"), key.toString("hex")].some((form) => bytes.includes(form))).toBe(false);
  const book = readBook(file);
  expect(book.integrity).toBe("ok");
  expect([...before.sent].filter((id) => !book.entries.has(id))).toEqual([]);
  expect([...before.verified].filter((id) => book.entries.get(id)?.state !== "VERIFIED")).toEqual([]);
  expect(book.entries.get(usedLater.id)).toMatchObject({ state: "PENDING", hasSalt: true });

  const use = { request_id: usedLater.id, code: usedLater.code };
  expect((await server.call("/v1/otp/verify", use))?.status).toBe(200);
  expect(await otpd("restore", file)).toMatchObject({
    code: 1,
    output: "",
    errors: `Nothing was restored: a server runs on ${path}: stop it first.\n`,
  });
  expect(readBook(path).entries.get(usedLater.id)?.state).toBe("VERIFIED");

  // kill -9 leaves a log beside the database, which must not be read into the restored one.
  await server.killed();
  const restored = await otpd("restore", file);
  expect(restored).toMatchObject({ code: 0, errors: "" });
  const pending = [...book.entries.values()].filter(({ state }) => state === "PENDING").length;
  expect(restored.output).toContain(`Ended as expired: ${pending} pending requests.`);
  const [, aside] = /is now (\S+):/.exec(restored.output) ?? [];
  expect(readBook(aside ?? "").entries.get(usedLater.id)?.state).toBe("VERIFIED");
  const now = readBook(path);
  expect(now).toMatchObject({ integrity: "ok", due: 0 });
  expect([...now.entries.values()].filter(({ state, hasSalt }) => state === "PENDING" || hasSalt)).toEqual([]);
  expect(now.entries.get(guessed.id)).toMatchObject({ state: "EXPIRED", attempts: 1 });

  const again = await startCrashable(deployment);
  expect(await reasonOf(again, "verify", use)).toBe("OTP_EXPIRED");
  expect(await reasonOf(again, "verify", { request_id: guessed.id, code: guessed.code })).toBe("OTP_EXPIRED");
  expect(await reasonOf(again, "send", { phone: "+31633333333" })).toBe("PHONE_RATE_LIMITED");
  const fresh = await send(again, deployment, "+31644444444");
  const verified = await again.call("/v1/otp/verify", { request_id: fresh.id, code: fresh.code });
  expect(verified?.status).toBe(200);
  await again.killed();
});

describe("backup", () => {
  test("writes over nothing, and leaves nothing behind where it fails", async () => {
    await addEnded(path, 1, 1);
    const file = join(folder, "kept");
    writeFileSync(file, "mine");
    const before = readdirSync(folder);
    const nowhere = join(folder, "missing", "backup");
    const inFile = join(file, "backup");
    for (const [target, sentence] of [
      [file, `${file} exists, and no backup is written over.`],
      [path, `${path} exists, and no backup is written over.`],
      [inFile, `no file can be made in ${file}, which is not there: a part of its path is a file.`],
      [nowhere, `there is no folder ${join(folder, "missing")}.`],
    ] as const) {
      const { code, errors } = await otpd("backup", target);
      expect({ code, errors }).toEqual({ code: 1, errors: expect.stringContaining(sentence) as string });
    }
    expect(readFileSync(file, "utf8")).toBe("mine");
    expect(readdirSync(folder)).toEqual(before);
    expect(await otpd("backup")).toMatchObject({ code: 2 });
  });

  test("makes no backup of a database that there is not, or that is broken", async () => {
    const file = join(folder, "backup");
    expect((await otpd("backup", file)).errors).toBe(`Nothing was backed up: there is no file ${path}.\n`);
    await addEnded(path, 500, 1);
    spoil(path);
    expect((await otpd("backup", file)).errors).toContain("Nothing was backed up: ");
    expect(readdirSync(folder).filter((name) => name.startsWith("backup"))).toEqual([]);
  });
});

describe("restore", () => {
  test("refuses what is no backup, is broken or from a newer otpd, and changes nothing", async () => {
    await addLapsed(path, 3);
    const at = (name: string) => join(folder, name);
    writeFileSync(at("text"), "a line of text\n".repeat(500));
    inDatabase(at("foreign"), (db) => db.exec("CREATE TABLE t (x); PRAGMA user_version = 3"));
    await addEnded(at("broken"), 500, 1);
    spoil(at("broken"));
    expect((await otpd("backup", at("newer"))).code).toBe(0);
    inDatabase(at("newer"), (db) => db.pragma("user_version = 99"));
    const before = readFileSync(path);
    for (const [name, sentence] of [
      ["missing", `there is no file ${at("missing")}.`],
      ["text", `${at("text")} is no database of otpd.`],
      ["foreign", `${at("foreign")} is no database of otpd.`],
      ["broken", `${at("broken")} is broken`],
      ["newer", `${at("newer")} was written by a newer version of otpd.`],
    ] as const) {
      const { code, errors } = await otpd("restore", at(name));
      expect({ code, errors }).toEqual({ code: 1, errors: expect.stringContaining(sentence) as string });
    }
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(folder).filter((name) => /part|until/.test(name))).toEqual([]);
  });

  test("makes a database where there was none, and brings an old one up to date", async () => {
    copyFileSync(new URL("../store/fixtures/schema-0001.db", import.meta.url), join(folder, "old"));
    const { code, output } = await otpd("restore", join(folder, "old"));
    expect(code).toBe(0);
    expect(output).not.toContain("is now");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect((await otpd("keys", "list")).code).toBe(0);
  });

  test("makes the folder of the database too, as on a new machine, but not for a backup that is not there", async () => {
    const data = join(folder, "new", "data");
    vi.stubEnv("OTP_DATABASE_URL", `file:${join(data, "otp.db")}`);
    expect(await otpd("restore", join(folder, "missing"))).toEqual({
      code: 1,
      output: "",
      errors: `Nothing was restored: there is no file ${join(folder, "missing")}.\n`,
    });
    expect(existsSync(join(folder, "new"))).toBe(false);
    await addLapsed(join(folder, "good"), 1);
    expect(await otpd("restore", join(folder, "good"))).toMatchObject({ code: 0, errors: "" });
    expect(statSync(data).mode & 0o777).toBe(0o700);
    expect(readBook(join(data, "otp.db")).integrity).toBe("ok");
  });

  test("replaces a database that is too broken to open, and keeps it", async () => {
    await addLapsed(join(folder, "good"), 1);
    writeFileSync(path, "no database");
    const { code, output } = await otpd("restore", join(folder, "good"));
    expect(code).toBe(0);
    const [, aside = ""] = /is now (\S+):/.exec(output) ?? [];
    expect(readFileSync(aside, "utf8")).toBe("no database");
    expect(readBook(path).integrity).toBe("ok");
  });

  test("leaves a database that was moved to PostgreSQL where it is, and its older backups with it", async () => {
    await addLapsed(path, 1);
    const file = join(folder, "backup");
    expect((await otpd("backup", file)).code).toBe(0);
    inDatabase(path, (db) => markMoved(db, { target: "postgres://db/otp", at_ms: 1 }, ["verifications"]));
    const sentence = `${path} was moved to postgres://db/otp.\n`;
    expect((await otpd("restore", file)).errors).toBe(`Nothing was restored: ${sentence}`);
    expect((await otpd("restore", "--expire-only")).errors).toBe(`Nothing was ended: ${sentence}`);
    expect((await otpd("backup", join(folder, "later"))).errors).toBe(`Nothing was backed up: ${sentence}`);
  });

  test("--expire-only ends what is pending in a database that was put back by other means", async () => {
    await addLapsed(path, 3);
    await addEnded(path, 2, 1);
    const { code, output } = await otpd("restore", "--expire-only");
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("expired: 3 pending") as string });
    expect(output).toMatch(/All else stays as it is\. If the database was put back from a copy, /);
    expect(output).not.toContain("backup");
    const states = [...readBook(path).entries.values()].map(({ state, hasSalt }) => `${state} ${hasSalt}`);
    expect(states.toSorted()).toEqual([
      ...Array<string>(3).fill("EXPIRED false"),
      ...Array<string>(2).fill("VERIFIED false"),
    ]);
    expect((await otpd("restore", "--expire-only", "file")).code).toBe(2);
  });
});

test("on PostgreSQL both name its own means", async () => {
  vi.stubEnv("OTP_DATABASE_URL", "postgres://otpd:secret@127.0.0.1:1/otp");
  const refused = (sentence: string) => ({ code: 1, output: "", errors: expect.stringContaining(sentence) as string });
  expect(await otpd("backup", "file")).toEqual(refused("use pg_dump"));
  expect(await otpd("restore", "file")).toEqual(refused("use pg_restore"));
});

/** Writes over the middle of a database: pages of its tables, but not its schema. */
function spoil(file: string): void {
  new Sqlite(file).close();
  const bytes = readFileSync(file);
  bytes.fill(0xff, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 8_192);
  writeFileSync(file, bytes);
}
