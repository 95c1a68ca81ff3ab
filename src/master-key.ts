/**
 * The master key of a development setup: made at the first start, and kept in a file of its own beside the database, for
 * its owner's eyes only. Production brings its key in OTP_MASTER_KEY.
 */
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { masterKeyBytes } from "./otp/keys/key-ring.ts";

/** Reads the key in a folder, and makes both first where there is none. Servers that start together get one key. */
export function ownMasterKey(folder: string, randomBytes: (count: number) => Uint8Array): Uint8Array {
  const path = masterKeyPath(folder);
  if (!existsSync(path)) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const key = Buffer.from(randomBytes(masterKeyBytes)).toString("base64url");
    // Linked when it is whole: another server may read the file as soon as it is there.
    const draft = `${path}.${process.pid}`;
    writeFileSync(draft, `${key}\n`, { mode: 0o600 });
    try {
      linkSync(draft, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    } finally {
      rmSync(draft);
    }
  }
  return read(path);
}

/** Reads the key in a folder; undefined where there is none. */
export function existingMasterKey(folder: string): Uint8Array | undefined {
  const path = masterKeyPath(folder);
  return existsSync(path) ? read(path) : undefined;
}

/** Where the key of a folder is kept. */
export function masterKeyPath(folder: string): string {
  return join(folder, "master.key");
}

function read(path: string): Uint8Array {
  const key = Buffer.from(readFileSync(path, "utf8").trim(), "base64url");
  if (key.length !== masterKeyBytes) throw new Error(`${path} does not hold a master key`);
  return key;
}
