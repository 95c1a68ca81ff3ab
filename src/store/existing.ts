/**
 * Whether there is a database to work on. Opening a database makes it, and a command that was given a wrong path must
 * not leave an empty database there and then say that it has no keys.
 */
import { accessSync, constants, statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { databaseFile } from "./sqlite/database-file.ts";
import { fileTrouble } from "./file-trouble.ts";
import type { Database } from "./open.ts";

/** There is no database where one is looked for. */
export class NoDatabase extends Error {}

/** Rejects with NoDatabase, or with a plain sentence where it cannot be looked at. Makes nothing. */
export async function requireDatabase(database: Database): Promise<void> {
  if (database.kind === "postgres") return requireTables(database.url);
  let { path } = database;
  try {
    path = databaseFile(path);
    const file = statSync(path);
    if (file.isDirectory()) throw new Error(`the database ${path} cannot be opened: it is a folder`);
    if (file.size === 0) throw new NoDatabase(`there is no database in ${path}: the file is empty`);
    accessSync(path, constants.R_OK | constants.W_OK);
  } catch (error) {
    if (!isAbsolute(path) && error instanceof Error && "code" in error) path = resolve(path);
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") throw new NoDatabase(`there is no database ${path}`, { cause: error });
    const trouble = fileTrouble(error);
    if (trouble === undefined) throw error;
    throw new Error(`the database ${path} cannot be opened: it ${trouble}`, { cause: error });
  }
}

async function requireTables(url: string): Promise<void> {
  const { createConnections, withoutCredentials } = await import("./postgres/connections.ts");
  const connections = createConnections({ url, connectionsMax: 1, isPatient: true });
  try {
    const text = `SELECT to_regclass('schema_version') IS NOT NULL AS found`;
    const [row] = await connections.query<{ found: boolean }>({ name: "schema-found", text }, []);
    if (row?.found !== true) throw new NoDatabase(`there is no database of otpd in ${withoutCredentials(url)}`);
  } catch (error) {
    if (!(error instanceof Error) || error instanceof NoDatabase) throw error;
    // The URL holds a password: only what the database said is told.
    throw new Error(`the database cannot be opened: ${error.message}`, { cause: error });
  } finally {
    await connections.close();
  }
}
