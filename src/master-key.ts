/**
 * The master key of a development setup: made at the first start, and kept in a file of its own beside the database, for
 * its owner's eyes only. Production brings its key in OTP_MASTER_KEY.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { masterKeyBytes } from "./otp/key-ring.ts";

/** Reads the key beside a database, and makes it first where there is none. */
export function ownMasterKey(databasePath: string, randomBytes: (count: number) => Uint8Array): Uint8Array {
  const path = pathBeside(databasePath);
  if (!existsSync(path)) {
    const key = Buffer.from(randomBytes(masterKeyBytes)).toString("base64url");
    writeFileSync(path, `${key}\n`, { mode: 0o600, flag: "wx" });
  }
  return read(path);
}

/** Reads the key beside a database; undefined where there is none. */
export function existingMasterKey(databasePath: string): Uint8Array | undefined {
  const path = pathBeside(databasePath);
  return existsSync(path) ? read(path) : undefined;
}

function pathBeside(databasePath: string): string {
  return join(dirname(databasePath), "master.key");
}

function read(path: string): Uint8Array {
  const key = Buffer.from(readFileSync(path, "utf8").trim(), "base64url");
  if (key.length !== masterKeyBytes) throw new Error(`${path} does not hold a master key`);
  return key;
}
