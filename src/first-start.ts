/**
 * What a first start in development gives to a first-time user: keys that may do everything, and a banner that says what
 * to type.
 */
import { getExampleNumber, type CountryCode } from "libphonenumber-js/max";
import examples from "libphonenumber-js/examples.mobile.json";
import type { ProviderName } from "./delivery/providers/list.ts";
import { publishableScopes, secretScopes } from "./otp/api-key.ts";
import type { Policy } from "./otp/policy.ts";
import type { Secret } from "./otp/secret.ts";
import type { Address } from "./server/listener/server.ts";
import { issueFirstKeys } from "./service/api-keys.ts";
import type { Store } from "./store/store.ts";
import type { System } from "./system.ts";

/** What a page in development may do: all that a publishable key can. */
export const everythingPublic = { kind: "pub", scopes: ["send", ...publishableScopes] } as const;

/** Where a web client in development is served from, by the build tool that most of them use. */
const firstOrigin = "http://localhost:5173";

/** The texts of the first keys. */
export interface FirstKeys {
  readonly secret: Secret;
  readonly publishable: Secret;
}

/** Makes and stores the first keys; undefined where there are keys already, which another server may just have made. */
export async function firstKeys(store: Store, system: System): Promise<FirstKeys | undefined> {
  if ((await store.registry.listApiKeys()).length > 0) return undefined;
  const common = { tenant: "default", name: "first start", expireMs: null };
  const [secret, publishable] =
    (await issueFirstKeys(store, system, [
      { ...common, kind: "live", scopes: secretScopes },
      { ...common, ...everythingPublic, origins: [firstOrigin] },
    ])) ?? [];
  return secret && publishable && { secret: secret.text, publishable: publishable.text };
}

/** By what messages go out, and where to. */
interface Ways {
  readonly providers: readonly ProviderName[];
  readonly policy: Pick<Policy, "allowedCountries">;
}

/** The phone of the banner's command: one that is allowed, and nobody's whom a real message would reach. */
function examplePhone({ providers, policy: { allowedCountries } }: Ways): string {
  if (!providers.includes("console")) return "YOUR_NUMBER";
  if (allowedCountries === undefined || allowedCountries.has("US")) return "+14155552671";
  const found = [...allowedCountries].map((country) => getExampleNumber(country as CountryCode, examples));
  return found.find((number) => number !== undefined)?.number ?? "YOUR_NUMBER";
}

/** What a first-time user reads. Plain text, every command on a line of its own. */
export function banner(
  { scheme, host, port }: Address,
  keys: FirstKeys | undefined,
  { providers, policy }: Ways,
  demoUrl: string | undefined,
): string {
  const at = `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
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
    providers.includes("console")
      ? "This is the development setup: it needs no configuration, and it prints each SMS here instead of sending it."
      : `This is the development setup. It sends real SMS, by ${providers.join(", ")}.`,
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
  ];
  return `\n${lines.join("\n")}\n\n`;
}
