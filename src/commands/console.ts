/**
 * `otpd console`: a link that signs in to the console, once.
 */
import { userInfo } from "node:os";
import type { Config } from "../config/config.ts";
import { adminScopes, type AdminScope } from "../otp/keys/admin-key.ts";
import { isUserName, linkMs } from "../otp/keys/console-session.ts";
import { commandLine } from "../otp/operators/audit.ts";
import { addConsoleLink } from "../service/operators/console-sessions.ts";
import { flag, Misused, parseArgs, say, Unusable, withStore, type Commands } from "./command.ts";
import { configuration, findTenant } from "./setup.ts";

export const consoleCommands: Commands = {
  console: {
    summary: "print a link that signs in to the console",
    help: `Usage: otpd console [--user NAME] [--scopes LIST] [--tenant NAME] [--url URL] [--json]

Prints a link to the console. It works once, and for ten minutes; the session that it begins ends half an hour after its last
use, and twelve hours after it began. The link's secret is behind the #, which no browser sends to any server.

  --user    who signs in, as the audit is to say; the user of this command unless given
  --scopes  what the session may do: ${adminScopes.join(",")}; all of them unless given.
            admin.phones shows whole numbers
  --tenant  binds the session to one tenant
  --url     where browsers find the console, such as https://console.example.com; as OTP_ADMIN_PORT and the certificate
            say unless given
  --json    print the link and what it is good for as one JSON object`,
    run: link,
  },
};

async function link(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      user: { type: "string" },
      scopes: { type: "string" },
      tenant: { type: "string" },
      url: { type: "string" },
      json: flag,
    },
  });
  const config = configuration();
  if (config.admin.access === "off") {
    throw new Unusable("The console is off: OTP_ADMIN must be loopback or on, where the service runs and here.");
  }
  const user = values.user ?? userInfo().username;
  if (!isUserName(user))
    throw new Misused("--user must be 1 to 100 visible characters, and begin with a letter or digit.");
  const scopes = scopesOf(values.scopes);
  const base = baseOf(values.url, config);
  await withStore(async (store, system) => {
    const tenant = values.tenant === undefined ? null : (await findTenant(store, values.tenant)).id;
    const token = await addConsoleLink({ store, system }, { user, scopes, tenant }, commandLine);
    const url = `${base}/console#token=${token.reveal()}`;
    if (values.json) return say(JSON.stringify({ url, user, scopes, tenant, expires_in_seconds: linkMs / 1_000 }));
    say(`${url}\n\nIt works once, within ten minutes, for ${user} with ${scopes.join(", ")}.`);
  });
}

function scopesOf(list: string | undefined): readonly AdminScope[] {
  if (list === undefined) return adminScopes;
  const named = list.split(",").map((each) => each.trim());
  if (!named.every((each) => adminScopes.some((scope) => scope === each))) {
    throw new Misused(`--scopes must be of ${adminScopes.join(",")}.`);
  }
  return adminScopes.filter((scope) => named.includes(scope));
}

function baseOf(url: string | undefined, { admin, tls }: Pick<Config, "admin" | "tls">): string {
  if (url === undefined) return `${tls === undefined ? "http" : "https"}://localhost:${admin.port}`;
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) throw new Misused("--url must be an http or https URL.");
  return parsed.origin;
}
