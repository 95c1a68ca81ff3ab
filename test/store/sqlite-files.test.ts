/**
 * What the store does to files and what other processes see of it: synced before it is acknowledged, one server per
 * database, the CLI beside it, and nobody else's business.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { lacks } from "../support/machine.ts";
import { cleanEnv, launcher, runOtpd, startOtpd, type Otpd } from "../support/processes/process.ts";
import { createManualSystem, testEpochMs } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, createActs } from "./acts.ts";

const program = fileURLToPath(new URL("program.ts", import.meta.url));

let folder: string;
let path: string;
const servers: Otpd[] = [];

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.end("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** A server that a test started is ended with the test. */
async function serve(): Promise<Otpd> {
  const server = await startOtpd(folder);
  servers.push(server);
  return server;
}

async function call(server: Otpd, key: string, act: string, body: object) {
  const response = await fetch(`${server.url}/v1/otp/${act}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe("durability", () => {
  test("the store's own connection has WAL and synchronous=FULL, and overwrites what it deletes", async () => {
    // Settings of a connection cannot be seen from another: this one is caught at its first pragma.
    const connections = new Set<Database>();
    const original = Object.getOwnPropertyDescriptor(Sqlite.prototype, "pragma") ?? {};
    const pragma = Sqlite.prototype.pragma;
    Sqlite.prototype.pragma = function (this: Database, ...args: Parameters<Database["pragma"]>) {
      connections.add(this);
      return pragma.apply(this, args);
    };
    const store = await openSqlite({ path, system: createManualSystem(), exclusive: true });
    Object.defineProperty(Sqlite.prototype, "pragma", original);
    const own = [...connections].filter(({ name }) => name === path);
    expect(own).toHaveLength(1);
    const settings = ["journal_mode", "synchronous", "secure_delete"].map((name) =>
      own[0]?.pragma(name, { simple: true }),
    );
    expect(settings).toEqual(["wal", 2, 1]);
    await store.close();
  });

  const lacksStrace = lacks("counting fsyncs", "strace");

  /** Runs a mode of the program under strace; resolves with its acks and syncs in the order they came, `.` and `s`. */
  function trace(mode: string, sends: number): string {
    const out = join(folder, `${mode}.trace`);
    const args = ["-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-o", out, process.execPath, program, mode, path];
    const { status, stderr } = spawnSync("strace", [...args, String(sends)], { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
    return readFileSync(out, "utf8")
      .split("\n")
      .map((line) => (/write\(1, "ack/.test(line) ? "." : /f(data)?sync.*= 0$/.test(line) ? "s" : ""))
      .join("");
  }

  test.skipIf(lacksStrace)("every acknowledged act has been synced to disk before its acknowledgement", () => {
    const events = trace("sequential", 40);
    expect(events.match(/\./g)).toHaveLength(40);
    expect(events).toMatch(/^(s+\.){40}s*$/);
  });

  test.skipIf(lacksStrace)("acts that come together share their syncs", async () => {
    // Each migration has syncs of its own, which are not the acts'.
    await (await openSqlite({ path, system: createManualSystem(), exclusive: true })).close();
    const events = trace("together", 200);
    expect(events.match(/\./g)).toHaveLength(200);
    expect(events).toMatch(/^s+\.+s*$/);
    expect(events.match(/s/g)?.length).toBeLessThan(30);
  });

  test("time does not run backwards across a restart, whatever was done to the machine's clock", async () => {
    const system = createManualSystem();
    const store = await openSqlite({ path, system, exclusive: true });
    system.advance(60_000);
    await store.ping();
    await store.close();
    const setBack = createManualSystem(1, testEpochMs - 3_600_000);
    const next = await openSqlite({ path, system: setBack, exclusive: true });
    expect(next.now()).toBe(testEpochMs + 60_000);
    await next.close();
  });
});

describe("one server per database", () => {
  test("a second one waits, and takes over what the first one had when that one is killed", async () => {
    const first = await serve();
    const [, key = ""] = await first.waitFor(/(otp_live_\w+)/);
    const sent = await call(first, key, "send", { phone: "+31612345678" });
    expect(sent.status).toBe(200);
    const [, code = ""] = await first.waitFor(/│ (\d{6}) /);

    let isUp = false;
    const second = serve().then((server) => {
      isUp = true;
      return server;
    });
    // It waits behind a server that answers: time enough for two calls and a command.
    expect((await call(first, key, "verify", { request_id: sent.body["request_id"], code: "12345" })).status).toBe(400);
    expect((await runOtpd(folder, ["keys", "list"])).code).toBe(0);
    expect((await call(first, key, "send", { phone: "+31612345678" })).status).toBe(200);
    expect(isUp).toBe(false);

    await first.end("SIGKILL");
    const verified = await call(await second, key, "verify", { request_id: sent.body["request_id"], code });
    expect(verified).toMatchObject({ status: 200, body: { state: "STATE_VERIFIED" } });
  });

  test("one that waited in vain is told who is in the way, and another database is free", async () => {
    const store = await openSqlite({ path, system: createManualSystem(), exclusive: true });
    const waits: number[] = [];
    const second = openSqlite({
      path,
      system: createManualSystem(),
      exclusive: true,
      lockWaitMs: 100,
      onLockWait: (waitMs) => void waits.push(waitMs),
    });
    await expect(second).rejects.toThrow(`another server holds ${path}`);
    expect(waits).toEqual([100]);
    const elsewhere = await openSqlite({
      path: join(folder, "elsewhere.db"),
      system: createManualSystem(),
      exclusive: true,
      lockWaitMs: 0,
    });
    await elsewhere.close();
    await store.close();
    const next = await openSqlite({ path, system: createManualSystem(), exclusive: true, lockWaitMs: 0 });
    await next.close();
  });

  test("one that cannot open its database lets go of the lock", async () => {
    mkdirSync(path);
    await expect(openSqlite({ path, system: createManualSystem(), exclusive: true })).rejects.toThrow("EISDIR");
    rmSync(path, { recursive: true });
    const store = await openSqlite({ path, system: createManualSystem(), exclusive: true, lockWaitMs: 0 });
    await store.close();
  });

  test("the CLI writes beside it, and what it writes counts from the next call on", async () => {
    const server = await serve();
    const made = await runOtpd(folder, ["keys", "create", "--name", "beside", "--scopes", "send", "--json"]);
    const { id, key } = JSON.parse(made.output) as { id: string; key: string };
    expect((await call(server, key, "send", { phone: "+31612345678" })).status).toBe(200);
    expect(await call(server, key, "cancel", { request_id: "AAAAAAAAAAAAAAAAAAAAAA" })).toMatchObject({
      body: { reason: "SCOPE_MISSING" },
    });
    expect((await runOtpd(folder, ["keys", "revoke", id])).code).toBe(0);
    expect(await call(server, key, "send", { phone: "+31612345678" })).toMatchObject({
      status: 401,
      body: { reason: "API_KEY_REVOKED" },
    });
  });

  test("its files are its user's alone", async () => {
    await serve();
    const data = join(folder, "data");
    const modes = readdirSync(data).map((name) => [name, (statSync(join(data, name)).mode & 0o777).toString(8)]);
    expect(Object.fromEntries(modes)).toEqual({
      "master.key": "600",
      "otp.db": "600",
      "otp.db-shm": "600",
      "otp.db-wal": "600",
      "otp.db.lock": "600",
    });
    expect((statSync(data).mode & 0o777).toString(8)).toBe("700");
  });
});

test("a database that is not WAL yet is waited for while another process writes", async () => {
  const other = new Sqlite(path);
  other.exec("CREATE TABLE unrelated (id)");
  other.exec("BEGIN IMMEDIATE");
  const opening = openSqlite({ path, system: createManualSystem(), exclusive: false });
  other.exec("COMMIT");
  const store = await opening;
  await expect(store.ping()).resolves.toBeUndefined();
  await store.close();
  other.close();
});

test("processes that open an empty database at once all succeed", async () => {
  const openers = Array.from({ length: 3 }, () => {
    const child = spawn(process.execPath, [program, "open"], { stdio: ["pipe", "pipe", "inherit"] });
    return { child, lines: child.stdout.setEncoding("utf8")[Symbol.asyncIterator]() };
  });
  const printed: string[] = [];
  for (let round = 0; round < 25; round++) {
    for (const { child } of openers) child.stdin.write(`${join(folder, `${round}.db`)}\n`);
    for (const { lines } of openers) printed.push(String((await lines.next()).value));
  }
  for (const { child } of openers) {
    child.stdin.end();
    await once(child, "exit");
  }
  expect(printed).toEqual(Array<string>(75).fill("opened\n"));
});

test("a database that another process left in the middle of its work is whole", async () => {
  const child = spawn(process.execPath, [program, "sequential", path, "100000"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let acks = 0;
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    acks += String(chunk).split("\n").length - 1;
    if (acks >= 200) child.kill("SIGKILL");
  }
  const system = createManualSystem();
  const store = await openSqlite({ path, system, exclusive: true });
  const { openAttempts } = await createActs(store, system).phone(ann);
  expect(openAttempts).toBeGreaterThanOrEqual(5 * acks);
  await store.close();
  const db = new Sqlite(path, { readonly: true });
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
  db.close();
});

test("in a folder that was deleted a command fails, and says why", () => {
  const script = 'rmdir "$PWD" && exec "$0" "$1" migrate';
  const { status, stderr } = spawnSync("sh", ["-c", script, process.execPath, launcher], {
    cwd: folder,
    env: cleanEnv(),
    encoding: "utf8",
    timeout: 120_000,
    killSignal: "SIGKILL",
  });
  expect([status, stderr]).toEqual([1, "the folder ./data cannot be made: the working directory was deleted\n"]);
});
