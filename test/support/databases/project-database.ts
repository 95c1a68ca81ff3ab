/**
 * Which database the worlds of a test project stand on. The project `postgres` starts a server once, and every world gets
 * a database of its own on it.
 */
import { inject } from "vitest";
import type { TestProject } from "vitest/node";
import { makeSchema, startPostgres } from "./postgres.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of the server's own database; absent on SQLite. */
    postgres: string | undefined;
  }
}

/** The project's set-up: starts the server, and tells where it is. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres();
  project.provide("postgres", server.url);
  return () => server.stop();
}

let databases = 0;

/** The URL of a new, empty database, or undefined where the project is on SQLite. */
export async function newDatabase(): Promise<string | undefined> {
  const url = inject("postgres");
  if (url === undefined) return undefined;
  databases += 1;
  return makeSchema(url, `world_${process.pid}_${databases}`);
}
