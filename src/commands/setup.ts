/**
 * What commands that need more than the database share: the whole configuration, and the keys of the database at hand.
 */
import { readFileSync } from "node:fs";
import { parseConfig, type Config } from "../config/config.ts";
import { existingMasterKey } from "../master-key.ts";
import { createKeyRing, type KeyRing } from "../otp/key-ring.ts";
import { Unusable, valueOf } from "./command.ts";

/** The configuration as `serve` would have it. */
export function configuration(): Config {
  const parsed = parseConfig(process.env, (path) => readFileSync(path, "utf8"));
  return valueOf("The configuration has faults", parsed);
}

/** The keys that the configuration brings, or those of a development setup. */
export function keyRingOf(config: Config): KeyRing {
  const own = config.masterKeys === undefined ? existingMasterKey(config.databasePath) : undefined;
  const keys = config.masterKeys ?? (own === undefined ? undefined : [own]);
  if (keys === undefined) throw new Unusable("There is no master key: set OTP_MASTER_KEY, or start the service once.");
  return createKeyRing(keys);
}
