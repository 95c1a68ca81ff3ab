/**
 * Who may sign in to the console beside those with a link: users whom a reverse proxy names.
 */
import type { AddressRange } from "../delivery/public-address.ts";
import type { ConsoleUser } from "../otp/keys/console-session.ts";
import type { Given } from "./variables.ts";

export interface ConsoleConfig {
  /** The addresses whose word on users is believed. Nobody's where there is none. */
  readonly proxies: readonly AddressRange[];
  /** The header that names the user, in lower case. */
  readonly userHeader: string;
  /** What each user may, whom a proxy names. */
  readonly users: readonly ConsoleUser[];
}

/** What the variables say of proxies. Pure. */
export function consoleOf(given: Given): ConsoleConfig {
  return {
    proxies: given.OTP_CONSOLE_PROXY ?? [],
    userHeader: given.OTP_CONSOLE_USER_HEADER.toLowerCase(),
    users: given.OTP_CONSOLE_USERS ?? [],
  };
}

/** What is wrong between the variables. `named` are those that are set. */
export function faultsOfProxies(named: ReadonlySet<string>): string[] {
  const [proxy, users] = ["OTP_CONSOLE_PROXY", "OTP_CONSOLE_USERS"];
  if (named.has(proxy) === named.has(users)) return [];
  return named.has(proxy)
    ? [`${users} is required by ${proxy}: it says what each user may.`]
    : [`${proxy} is required by ${users}: it says whose word on users is believed.`];
}
