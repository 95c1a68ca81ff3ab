/**
 * An empty database of the service, for commands, which make none.
 */
import { createSystem } from "../../../src/system.ts";
import { openStore } from "../../../src/store/open.ts";

/** Makes the SQLite database at `path` with its folder. */
export async function makeDatabase(path: string): Promise<void> {
  const store = await openStore({ database: { kind: "sqlite", path }, system: createSystem(), exclusive: false });
  await store.close();
}
