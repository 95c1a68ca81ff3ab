/**
 * An empty SQLite database of the service: for commands, which make none, and for worlds, of which each would run all
 * migrations and flush each of them to the disk.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { openStore } from "../../../src/store/open.ts";
import { createManualSystem } from "../service/system.ts";

let made: Promise<Buffer> | undefined;

/**
 * Makes the SQLite database at `path` with its folder, as the service makes it: a copy of the first one of this process. One
 * that is there is left as it is.
 */
export async function makeDatabase(path: string): Promise<void> {
  if (existsSync(path)) return;
  made ??= make();
  const bytes = await made;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, bytes, { mode: 0o600 });
}

async function make(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), "otpd-test-"));
  const path = join(folder, "otp.db");
  try {
    const database = { kind: "sqlite", path } as const;
    const store = await openStore({ database, system: createManualSystem(), exclusive: false });
    await store.close();
    return readFileSync(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
