/**
 * What a server is started on: where its files lie, a database that is ready to serve with a key to it, and the
 * configuration of production.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { secretScopes } from "../../../src/otp/keys/api-key.ts";
import { issueKey } from "../../../src/service/callers/api-keys.ts";
import { openStore, type Database } from "../../../src/store/open.ts";
import { createSystem } from "../../../src/system.ts";
import type { CodeBox } from "./load.ts";

/** Where servers keep their files, and where their codes arrive. */
export interface Place {
  readonly folder: string;
  readonly codes: CodeBox;
}

/** A database that is ready to serve, and a key to it. */
export interface Prepared {
  readonly url: string;
  readonly key: string;
}

const masterKey = randomBytes(32).toString("base64url");

/** The configuration of a production server that sends by a provider of its own. The provider itself is replaced. */
export function productionEnv(url: string): Record<string, string> {
  return {
    OTP_ENV: "production",
    OTP_PORT: "0",
    OTP_DATABASE_URL: url,
    OTP_MASTER_KEY: masterKey,
    OTP_ALLOWED_COUNTRIES: "NL",
    OTP_DAILY_MESSAGE_CAP: "100000000",
    OTP_PROVIDERS: "webhook",
    OTP_WEBHOOK_URL: "http://127.0.0.1:9/",
    OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 1).toString("base64")}`,
    // One key does all the calls here, which are more than a key is allowed.
    OTP_KEY_LIMIT: "none",
  };
}

/** Creates a database, and makes a key for it. */
export async function prepare(url: string): Promise<Prepared> {
  const system = createSystem();
  const database: Database = url.startsWith("file:")
    ? { kind: "sqlite", path: url.slice("file:".length) }
    : { kind: "postgres", url };
  const store = await openStore({ database, system, exclusive: false });
  try {
    const options = { kind: "live", tenant: "default", name: "bench", scopes: secretScopes, expireMs: null } as const;
    const { text } = await issueKey(store, system, options);
    return { url, key: text.reveal() };
  } finally {
    await store.close();
  }
}

export function prepareSqlite({ folder }: Place, name: string): Promise<Prepared> {
  return prepare(`file:${join(folder, `${name}.db`)}`);
}
