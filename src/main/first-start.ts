/**
 * The first start in development: it makes keys that may do everything, and prints a banner that says what to type.
 */
import { getExampleNumber, type CountryCode } from "libphonenumber-js/max";
import examples from "libphonenumber-js/examples.mobile.json";
import { providersNamed } from "../config/config.ts";
import type { ProviderNames } from "../config/provider-faults.ts";
import { publishableScopes, secretScopes } from "../otp/keys/api-key.ts";
import { adminScopes } from "../otp/keys/admin-key.ts";
import { firstStart } from "../otp/operators/audit.ts";
import type { Policy } from "../otp/verification/policy.ts";
import type { Secret } from "../otp/keys/secret.ts";
import type { Address } from "../server/listener/server.ts";
import { issueFirstKeys } from "../service/callers/api-keys.ts";
import { addConsoleLink } from "../service/operators/console-sessions.ts";
import type { Store } from "../store/store.ts";
import type { System } from "../system.ts";
import type { Base } from "./base.ts";

/** The rights of a page in development: all that a publishable key can have. */
export const everythingPublic = { kind: "pub", scopes: ["send", ...publishableScopes] } as const;

/** The origin of a web client in development, as Vite serves it. */
const firstOrigin = "http://localhost:5173";

export interface FirstKeys {
  readonly secret: Secret;
  readonly publishable: Secret;
}

/** Makes and stores the first keys; undefined where there are keys already: another server may just have made them. */
async function firstKeys(store: Store, system: System): Promise<FirstKeys | undefined> {
  if ((await store.registry.listApiKeys()).length > 0) return undefined;
  const common = { tenant: "default", name: "first start", expireMs: null };
  const [secret, publishable] =
    (await issueFirstKeys(store, system, [
      { ...common, kind: "live", scopes: secretScopes },
      { ...common, ...everythingPublic, origins: [firstOrigin] },
    ])) ?? [];
  return secret && publishable && { secret: secret.text, publishable: publishable.text };
}

/** What decides which phone the banner names. */
interface SendSettings {
  readonly providers: ProviderNames;
  readonly policy: Pick<Policy, "allowedCountries">;
}

/** The phone of the banner's command: an allowed one, and a placeholder where a real message would go out. */
function examplePhone({ providers, policy: { allowedCountries } }: SendSettings): string {
  if (!providers.sms.includes("console")) return "YOUR_NUMBER";
  if (allowedCountries === undefined || allowedCountries.has("US")) return "+14155552671";
  const found = [...allowedCountries].map((country) => getExampleNumber(country as CountryCode, examples));
  return found.find((number) => number !== undefined)?.number ?? "YOUR_NUMBER";
}

/** What is served beside the calls. */
export interface Beside {
  readonly demoUrl: string | undefined;
  /** Signs in to the console, once. */
  readonly consoleUrl: string | undefined;
}

/** What a start in development prints: it makes the first keys where there are none, and a link to the console. */
export async function welcome(
  { config, store, system }: Pick<Base, "config" | "store" | "system">,
  address: Address,
  { demoUrl, admin }: Pick<Beside, "demoUrl"> & { readonly admin: Address | undefined },
): Promise<string> {
  const keys = await firstKeys(store, system);
  return banner(address, keys, config, { demoUrl, consoleUrl: admin && (await consoleUrl(store, system, admin)) });
}

/** A link as `otpd console` prints it, to the console at this address. */
async function consoleUrl(store: Store, system: System, admin: Address): Promise<string> {
  const user = { user: "development", scopes: adminScopes, tenant: null };
  return `${urlOf(admin)}/console#token=${(await addConsoleLink({ store, system }, user, firstStart)).reveal()}`;
}

function urlOf({ scheme, host, port }: Address): string {
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The banner: plain text, every command on a line of its own. */
export function banner(
  address: Address,
  keys: FirstKeys | undefined,
  { providers, policy }: SendSettings,
  { demoUrl, consoleUrl: operators }: Beside,
): string {
  const at = urlOf(address);
  const bearer = keys?.secret.reveal() ?? "$API_KEY";
  const curl = (path: string, body: string) =>
    `  curl -s ${at}${path} -H "Authorization: Bearer ${bearer}" -H "Content-Type: application/json" -d '${body}'`;
  const key =
    keys === undefined
      ? [
          "Your API key was shown at the first start; otpd keys create makes another. The commands below take it from",
          "the shell:",
          "",
          // Not OTP_API_KEY: the server refuses OTP_ variables that it does not know.
          "  export API_KEY=otp_live_...",
        ]
      : [
          "Your API key, shown this once:",
          "",
          `  ${bearer}`,
          "",
          `A publishable key for a web page on ${firstOrigin}, which may also send, shown this once:`,
          "",
          `  ${keys.publishable.reveal()}`,
        ];
  const lines = [
    `otpd listens on ${at}`,
    "",
    providersNamed({ providers }).every((name) => name === "console")
      ? "This is the development setup: it needs no configuration, and it prints each SMS here instead of sending it."
      : `This is the development setup. It sends real messages, by ${providersNamed({ providers })
          .filter((name) => name !== "console")
          .join(", ")}.`,
    "",
    ...key,
    "",
    "Send a code:",
    "",
    curl("/v1/otp/send", JSON.stringify({ phone: examplePhone({ providers, policy }) })),
    "",
    "Check it, with the request_id from that answer and the code from the SMS:",
    "",
    curl("/v1/otp/verify", '{"request_id":"REQUEST_ID","code":"CODE"}'),
    ...(demoUrl === undefined ? [] : ["", `Or try it in a browser: ${demoUrl}`]),
    ...(operators === undefined
      ? []
      : [
          "",
          "See it as an operator, once and within ten minutes (otpd console prints more, otpd demo-data fills it with a month):",
          "",
          `  ${operators}`,
        ]),
  ];
  return `\n${lines.join("\n")}\n\n`;
}
