/**
 * A primary and its synchronous standby, of Debian's PostgreSQL, behind one address that leads to whichever is the primary:
 * what Patroni or a managed database gives an application, without what decides. Needs "PostgreSQL's pg_basebackup".
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { postgresPrograms } from "../machine.ts";
import { freePort } from "../network/ports.ts";
import { startTcpProxy } from "../network/tcp-proxy.ts";
import { temporaryFolder } from "../service/world.ts";
import { makeSchema } from "./postgres.ts";

interface Node {
  readonly port: number;
  readonly process: ChildProcess;
  run(sql: string): Promise<Record<string, unknown>[]>;
}

export interface PostgresPair {
  /** The address: each new connection to it leads to the primary of its moment. */
  readonly port: number;
  /** Makes an empty database, and tells its URL by the address. */
  createDatabase(): Promise<string>;
  /** Ends the primary for good, once its standby has all that it acknowledges. */
  crash(): Promise<void>;
  /** Makes the standby the primary, and begins to make another standby. */
  startAgain(): Promise<void>;
  /** Has the standby's word on what it has no longer get to the primary, or has it get there again. */
  holdBack(): Promise<void>;
  letGo(): Promise<void>;
  stop(): Promise<void>;
}

const user = "otpd";
const program = (name: string) => join(postgresPrograms, name);
/** The server refuses to run as root. Debian makes this user with it; the mail's owner is nobody's and not it. */
const owner = process.getuid?.() === 0 ? ownerOf("/var/lib/postgresql") : {};

function ownerOf(path: string): { uid?: number; gid?: number } {
  const { uid, gid } = statSync(path, { throwIfNoEntry: false }) ?? { uid: 65_534, gid: 65_534 };
  return { uid, gid };
}

async function startNode(data: string): Promise<Node> {
  const port = await freePort();
  const settings = ["fsync=off", "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=150"];
  const args = ["-D", data, "-p", `${port}`, ...settings.flatMap((each) => ["-c", each])];
  const child = spawn(program("postgres"), args, { ...owner, stdio: ["ignore", "ignore", "pipe"] });
  await new Promise<void>((resolve, reject) => {
    let log = "";
    child.stderr.on("data", (chunk: Buffer) => {
      if (!log.includes("ready to accept")) log += chunk.toString("utf8");
      if (log.includes("ready to accept")) resolve();
    });
    child.once("exit", () => reject(new Error(log)));
  });
  return {
    port,
    process: child,
    async run(sql) {
      const client = new Client(`postgres://${user}@127.0.0.1:${port}/postgres`);
      await client.connect();
      try {
        return (await client.query<Record<string, unknown>>(sql)).rows;
      } finally {
        await client.end();
      }
    },
  };
}

export async function startPostgresPair(): Promise<PostgresPair> {
  const folder = temporaryFolder();
  const home = join(folder, "nodes");
  mkdirSync(home);
  chmodSync(folder, 0o755);
  if (owner.uid !== undefined && owner.gid !== undefined) chownSync(home, owner.uid, owner.gid);
  const run = promisify(execFile);
  let made = 0;
  const newFolder = () => join(home, `node${(made += 1)}`);

  const first = newFolder();
  await run(program("initdb"), ["-D", first, "-U", user, "-A", "trust", "--no-sync"], { ...owner, cwd: home });
  let primary = await startNode(first);
  const address = await startTcpProxy(() => primary.port);

  /** Makes a standby of the primary, and has every commit wait for it from then on. */
  async function accompany(): Promise<Node> {
    const data = newFolder();
    const from = `postgres://${user}@127.0.0.1:${primary.port}/postgres`;
    await run(program("pg_basebackup"), ["-D", data, "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync"], {
      ...owner,
      cwd: home,
    });
    const standby = await startNode(data);
    await primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await primary.run("SELECT pg_reload_conf()");
    const isSynchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
    while ((await primary.run(isSynchronous)).length === 0) await sleep(10);
    // The checkpointer, which has commits wait, has read its settings before it does anything else.
    await primary.run("CHECKPOINT");
    return standby;
  }
  let standby = accompany();

  async function end(node: Node): Promise<void> {
    const gone = once(node.process, "exit");
    if (node.process.exitCode !== null || node.process.signalCode !== null) return;
    node.process.kill("SIGQUIT");
    await gone;
  }
  /** The process that hears from the standby. */
  const sender = async () => Number((await primary.run("SELECT pid FROM pg_stat_replication"))[0]?.["pid"]);

  let databases = 0;
  return {
    port: address.port,
    async createDatabase() {
      await standby;
      databases += 1;
      return makeSchema(`postgres://${user}@127.0.0.1:${address.port}/postgres`, `db${databases}`);
    },
    async crash() {
      await standby;
      await end(primary);
    },
    async startAgain() {
      const promoted = await standby;
      await promoted.run("SELECT pg_promote(true, 60)");
      // It has no standby of its own yet, and its settings are those of the one that is gone.
      await promoted.run("ALTER SYSTEM SET synchronous_standby_names = ''");
      await promoted.run("SELECT pg_reload_conf()");
      primary = promoted;
      standby = accompany();
      standby.catch(() => {});
    },
    async holdBack() {
      await standby;
      process.kill(await sender(), "SIGSTOP");
    },
    async letGo() {
      process.kill(await sender(), "SIGCONT");
    },
    async stop() {
      await address.stop();
      const last = await standby.catch(() => undefined);
      await end(primary);
      if (last !== undefined) await end(last);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
