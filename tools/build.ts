/**
 * Makes `dist/`, from which the two packages are packed: the server's code in few files with what it reads, and `dist/client`,
 * the package of the generated TypeScript client.
 */
import { buildClient } from "./build/client.ts";
import { buildServer } from "./build/server.ts";

await buildServer();
buildClient();
