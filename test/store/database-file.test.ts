/**
 * One server per database file, whatever the file is called: links, folders that are links, paths with detours. Real
 * servers in processes of their own, and commands beside them.
 */
import { existsSync, linkSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { databaseFile } from "../../src/store/sqlite/database-file.ts";
import { openStore } from "../../src/store/open.ts";
import { firstKey, runOtpd, startOtpd, type Otpd } from "../support/processes/process.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

let folder: string;
/** The file itself, in a folder of its own. */
let path: string;
const servers: Otpd[] = [];

beforeEach(() => {
  folder = temporaryFolder();
  mkdirSync(join(folder, "real"));
  path = join(folder, "real", "otp.db");
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.end("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const masterKey = Buffer.alloc(32, 7).toString("base64url");
const envFor = (database: string) => ({ OTP_DATABASE_URL: `file:${database}`, OTP_MASTER_KEY: masterKey });

async function serve(database: string): Promise<Otpd> {
  const server = await startOtpd(folder, envFor(database));
  servers.push(server);
  return server;
}

/** A server within this process that waits for nobody; it is closed again. */
async function serveAtOnce(database: string): Promise<void> {
  const opened = await openStore({
    database: { kind: "sqlite", path: database },
    system: createManualSystem(),
    exclusive: true,
    lockWaitMs: 0,
  });
  await opened.close();
}

/** Other ways to the same file, each made in the folder. */
const ways: readonly (readonly [way: string, make: () => string])[] = [
  ["a symbolic link", () => linked(path, "link.db")],
  ["a link to a link", () => linked(linked(path, "first.db"), "second.db")],
  ["a relative link", () => linked("real/otp.db", "link.db")],
  ["a folder that is a link", () => join(linked(join(folder, "real"), "folder"), "otp.db")],
  ["a detour", () => `${folder}/real/../real//./otp.db`],
  ["a detour through a folder that is a link", () => `${linked(madeFolder("real/deep"), "deep")}/../otp.db`],
  ["a relative path", () => relative(process.cwd(), path)],
  ["a space at its end", () => `${path} `],
];

function linked(target: string, name: string): string {
  symlinkSync(target, join(folder, name));
  return join(folder, name);
}
function madeFolder(name: string): string {
  mkdirSync(join(folder, name));
  return join(folder, name);
}

describe("where a server serves", () => {
  test("no other one serves by another way to the same file", async () => {
    await serve(path);
    for (const [way, make] of sampled(ways, 2)) {
      await expect(serveAtOnce(make()), way).rejects.toThrow(`another server holds ${path}`);
      for (const name of readdirSync(folder)) if (name !== "real") rmSync(join(folder, name));
      rmSync(join(folder, "real", "deep"), { recursive: true, force: true });
    }
  });

  test("by a link, none serves the file itself", async () => {
    await serve(linked(path, "link.db"));
    await expect(serveAtOnce(path)).rejects.toThrow(`another server holds ${path}`);
    expect(readdirSync(join(folder, "real")).toSorted()).toEqual(["otp.db", "otp.db-shm", "otp.db-wal", "otp.db.lock"]);
  });

  test("a server that comes by a link waits, and goes on with what the first one had", async () => {
    const first = await serve(path);
    const key = await firstKey(first);
    let isUp = false;
    const second = serve(linked(path, "link.db")).then((server) => {
      isUp = true;
      return server;
    });
    expect((await runOtpd(folder, ["keys", "list"], envFor(path))).code).toBe(0);
    expect(isUp).toBe(false);
    await first.end("SIGKILL");
    const { url } = await second;
    const answer = await fetch(`${url}/v1/otp/AAAAAAAAAAAAAAAAAAAAAA`, { headers: { authorization: `Bearer ${key}` } });
    expect(answer.status).toBe(404);
  });

  test("a server that comes by a hard link ends, with a sentence that names the names", async () => {
    await serve(path);
    const other = join(folder, "real", "other.db");
    linkSync(path, other);
    symlinkSync(path, join(folder, "real", "symbolic.db"));
    const { code, errors } = await runOtpd(folder, ["serve"], { ...envFor(other), OTP_PORT: "0" });
    expect([code, errors]).toEqual([
      1,
      expect.stringContaining(
        `the database ${other} has 2 names (hard links), each of which would be a database of its own: remove the others, such as ${path}\n`,
      ),
    ]);
  });

  test.each(sampled(["restore", "restore --expire-only"], 2))("%s by a symbolic link is refused", async (command) => {
    const server = await serve(path);
    const backup = join(folder, "backup.db");
    expect((await runOtpd(folder, ["backup", backup], envFor(path))).code).toBe(0);
    const args = command === "restore" ? ["restore", backup] : command.split(" ");
    const { code, errors } = await runOtpd(folder, args, envFor(linked(path, "link.db")));
    expect([code, errors]).toEqual([1, expect.stringContaining(`a server runs on ${path}: stop it first`)]);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  });

  test.each(sampled(["restore", "restore --expire-only", "backup", "keys list"], 2))(
    "%s by a hard link is refused",
    async (command) => {
      await serve(path);
      const backup = join(folder, "backup.db");
      expect((await runOtpd(folder, ["backup", backup], envFor(path))).code).toBe(0);
      const other = join(folder, "other.db");
      linkSync(path, other);
      const file = command === "restore" ? [backup] : command === "backup" ? [join(folder, "second.db")] : [];
      const { code, errors } = await runOtpd(folder, [...command.split(" "), ...file], envFor(other));
      expect([code, errors]).toEqual([1, expect.stringContaining(`the database ${other} has 2 names (hard links)`)]);
    },
  );
});

test("a link to a file or a folder that is not there yet leads to where the database is made", async () => {
  const link = linked("later/deep/otp.db", "link.db");
  await serveAtOnce(link);
  expect(readdirSync(join(folder, "later", "deep")).toSorted()).toEqual(["otp.db", "otp.db.lock"]);
  expect(readdirSync(folder).toSorted()).toEqual(["later", "link.db", "real"]);
});

test("links in a circle are no database", () => {
  symlinkSync("b.db", join(folder, "a.db"));
  symlinkSync("a.db", join(folder, "b.db"));
  expect(() => databaseFile(join(folder, "a.db"))).toThrow("ELOOP");
});

test("restore by a link puts the backup in the place of the file, and leaves the link", async () => {
  await serveAtOnce(path);
  const backup = join(folder, "backup.db");
  expect((await runOtpd(folder, ["backup", backup], envFor(path))).code).toBe(0);
  const link = linked(path, "link.db");
  const { code, errors } = await runOtpd(folder, ["restore", backup], envFor(link));
  expect([code, errors]).toEqual([0, ""]);
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  const names = readdirSync(join(folder, "real"));
  expect(names.filter((name) => name.startsWith(`${basename(path)}.until-`))).toHaveLength(1);
  expect(existsSync(path)).toBe(true);
  await serveAtOnce(link);
});

test("a backup that has several names is restored from: it is not served", async () => {
  await serveAtOnce(path);
  const backup = join(folder, "backup.db");
  expect((await runOtpd(folder, ["backup", backup], envFor(path))).code).toBe(0);
  linkSync(backup, join(folder, "yesterday.db"));
  expect((await runOtpd(folder, ["restore", backup], envFor(path))).code).toBe(0);
});
