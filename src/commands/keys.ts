/**
 * `otpd keys`: make, list and revoke API keys.
 */
import { parseArgs } from "node:util";
import { parseDurationMs } from "../config/shapes.ts";
import { scopes, type ApiKey, type Scope } from "../otp/api-key.ts";
import { issueKey } from "../service/api-keys.ts";
import { createSystem, type Instant } from "../system.ts";
import { Misused, say, table, timeOf, Unusable, withStore, type Command } from "./command.ts";
import { findTenant } from "./setup.ts";

const allScopes = scopes.join(",");

export const keyCommands: Record<string, Command> = {
  "keys create": {
    summary: "make an API key",
    help: `Usage: otpd keys create [--name NAME] [--tenant NAME] [--scopes LIST] [--expires WHEN] [--test] [--json]

Makes an API key and prints it, this once.

  --name NAME      what the key is for, at most 64 characters
  --tenant NAME    whose it is; default unless given
  --scopes LIST    what it may do, of ${allScopes}; all of them unless given
  --expires WHEN   when it stops working: a date such as 2030-01-31 (in UTC), or a time from now such as 90d
  --test           a key for the sandbox: fictional numbers only, nothing is ever sent (docs/testing.md)
  --json           print {"id","key","tenant","name","scopes","expire_time"}`,
    run: createKey,
  },
  "keys list": {
    summary: "list the API keys",
    help: `Usage: otpd keys list [--tenant NAME] [--json]

Lists every API key, without its secret.

  --tenant NAME   only the keys of this tenant
  --json          print an array of {"id","kind","tenant","name","scopes","state","create_time","expire_time",
                  "last_use_time"}`,
    run: listKeys,
  },
  "keys revoke": {
    summary: "revoke an API key",
    help: `Usage: otpd keys revoke ID

Revokes the API key with this id. It is refused from the next call on.`,
    run: revokeKey,
  },
};

async function createKey(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      name: { type: "string", default: "" },
      tenant: { type: "string", default: "default" },
      scopes: { type: "string", default: allScopes },
      expires: { type: "string" },
      test: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
    },
  });
  if (values.name.length > 64 || /\p{Cc}/u.test(values.name))
    throw new Misused("--name must be one line of at most 64 characters.");
  const wanted = values.scopes.split(",").map((scope) => scope.trim());
  const unknown = wanted.filter((scope) => !scopes.some((known) => known === scope));
  if (unknown.length > 0) throw new Misused(`--scopes must be a list of ${allScopes}.`);
  const expireMs = values.expires === undefined ? null : parseExpiry(values.expires, createSystem().now());
  await withStore(async (store, system) => {
    const { id: tenant } = await findTenant(store, values.tenant);
    const wish = {
      kind: values.test ? ("test" as const) : ("live" as const),
      tenant,
      name: values.name,
      scopes: scopes.filter((scope: Scope) => wanted.includes(scope)),
      expireMs,
    };
    const { key, text } = await issueKey(store, system, wish);
    if (values.json) {
      const { id, name, scopes: granted } = key;
      say(JSON.stringify({ id, key: text.reveal(), tenant, name, scopes: granted, expire_time: timeOf(expireMs) }));
    } else {
      say(
        `The API key, shown this once:\n\n  ${text.reveal()}\n\nid ${key.id}${tenant === "default" ? "" : `, of ${tenant}`}, may ${key.scopes.join(", ")}, ${expireMs === null ? "does not expire" : `expires ${timeOf(expireMs)}`}`,
      );
    }
  });
}

async function listKeys(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { tenant: { type: "string" }, json: { type: "boolean", default: false } },
  });
  await withStore(async (store) => {
    const only = values.tenant === undefined ? undefined : await findTenant(store, values.tenant);
    const all = await store.registry.listApiKeys();
    const keys = all
      .filter(({ tenant }) => only === undefined || tenant === only.id)
      .map((key) => ({
        id: key.id,
        kind: key.kind,
        tenant: key.tenant,
        name: key.name,
        scopes: key.scopes,
        state: stateOf(key, store.now()),
        create_time: timeOf(key.createMs),
        expire_time: timeOf(key.expireMs),
        last_use_time: timeOf(key.lastUseMs),
      }));
    if (values.json) return say(JSON.stringify(keys));
    if (keys.length === 0) {
      const [whose, flag] = only === undefined ? ["", ""] : [` of ${only.id}`, ` --tenant ${only.id}`];
      return say(`There are no API keys${whose}. Make one: npx otpd keys create${flag} --name me`);
    }
    const head = ["ID", "KIND", "TENANT", "NAME", "STATE", "SCOPES", "LAST USED", "EXPIRES"];
    const lines = keys.map((k) => [
      k.id,
      k.kind,
      k.tenant,
      k.name || "-",
      k.state,
      k.scopes.join(","),
      k.last_use_time ?? "never",
      k.expire_time ?? "never",
    ]);
    say(table([head, ...lines]));
  });
}

async function revokeKey(args: string[]): Promise<void> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const [id] = positionals;
  if (id === undefined || positionals.length > 1)
    throw new Misused("Give the id of one key: otpd keys list shows them.");
  await withStore(async (store) => {
    if (!(await store.registry.revokeApiKey(id, store.now())))
      throw new Unusable(`There is no API key with the id ${id.slice(0, 10)}.`);
    say(`Revoked ${id}.`);
  });
}

function stateOf(key: ApiKey, now: Instant): string {
  if (key.revokeMs !== null) return "revoked";
  return key.expireMs !== null && key.expireMs <= now ? "expired" : "active";
}

function parseExpiry(text: string, now: Instant): Instant {
  const fromNow = /^\d+[smhd]$/.test(text) ? parseDurationMs(text) : undefined;
  const at = fromNow === undefined ? parseDate(text) : now + fromNow;
  if (at === undefined || at <= now) {
    throw new Misused("--expires must be a date to come such as 2030-01-31, or a time from now such as 90d.");
  }
  return at;
}

/** `2030-01-31` or `2030-01-31T12:00Z`, in UTC. Date.parse alone also takes 2030-02-31, for the 3rd of March. */
function parseDate(text: string): Instant | undefined {
  if (!/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?Z)?$/.test(text)) return undefined;
  const at = Date.parse(text);
  return timeOf(Number.isNaN(at) ? null : at)?.startsWith(text.slice(0, 10)) ? at : undefined;
}
