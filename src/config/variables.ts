/**
 * Every `OTP_*` variable: its shape and its default. Rules between variables are in config.ts.
 */
import * as v from "valibot";
import {
  integer,
  oneOf,
  commaList,
  limit,
  parseAddressRange,
  parseLimit,
  listOf,
  parseGapMs,
  fallbackOrder,
  parseCountry,
  parseMasterKey,
  parseCountryOriginator,
  databaseUrl,
  money,
  visible,
} from "./shapes.ts";
import { parseConsoleUser } from "./console-users.ts";
import { providers } from "../delivery/providers/list.ts";
import { lifeMaxMs } from "../otp/verification/verification.ts";
import { httpsOrigin, httpUrl } from "../delivery/providers/shapes.ts";
import { logLevels } from "../telemetry.ts";

const ofProviders = providers.flatMap(({ variables: described }) => Object.entries(described));
const entriesOfProviders = Object.fromEntries(
  ofProviders.map(([name, { shape, default: text }]) => [name, v.optional(shape, text)]),
);

export const providerVariables: readonly string[] = ofProviders.map(([name]) => name);

export const variables = v.object({
  OTP_ENV: v.optional(oneOf(["development", "production"]), "development"),
  OTP_HOST: v.optional(
    v.pipe(v.string(), v.regex(/^[0-9A-Za-z.:-]+$/, "must be an address or a host name")),
    "127.0.0.1",
  ),
  OTP_PORT: v.optional(integer(0, 65_535), "8080"),
  OTP_DATABASE_URL: v.optional(databaseUrl, "file:./data/otp.db"),
  OTP_MASTER_KEY: v.optional(
    v.pipe(
      listOf(parseMasterKey, 1, 8, "<key>,<older key>, each 32 bytes in base64url without padding"),
      v.check(([current]) => current?.isLeaked !== true, "must begin with a key that has not leaked"),
    ),
  ),
  // Which names there are, the file of providers tells too: config.ts looks.
  OTP_PROVIDERS: v.optional(commaList, "console"),
  OTP_VOICE_PROVIDERS: v.optional(commaList),
  OTP_WHATSAPP_PROVIDERS: v.optional(commaList),
  OTP_VOICE_DAILY_CAP: v.optional(integer(0, 100_000_000), "0"),
  OTP_VOICE_UNATTENDED: v.optional(oneOf(["on", "off"]), "off"),
  OTP_FALLBACK: v.optional(fallbackOrder),
  OTP_HTTP_PROVIDERS_FILE: v.optional(v.string()),
  OTP_PUBLIC_URL: v.optional(httpsOrigin("must be an https origin without a path, such as https://otp.example.com")),
  OTP_ORIGINATORS: v.optional(listOf(parseCountryOriginator, 1, 300, "NL=Acme,US=+15551234567")),
  ...(entriesOfProviders as object),
  OTP_CHALLENGE_VERIFY_URL: v.optional(httpUrl("must be an https URL (http only for this machine)")),
  OTP_CHALLENGE_SECRET: v.optional(
    v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,256}$/, "must be 1 to 256 visible ASCII characters")),
  ),
  OTP_BRAND: v.optional(visible, "otpd"),
  OTP_TEMPLATES_FILE: v.optional(v.string()),
  OTP_CODE_LENGTH: v.optional(integer(6, 10), "6"),
  OTP_CODE_LENGTH_MAX: v.optional(integer(6, 10), "8"),
  OTP_GUESS_POLICY: v.optional(oneOf(["lengthen", "strict"]), "lengthen"),
  OTP_TTL_SECONDS: v.optional(integer(180, lifeMaxMs / 1_000, " seconds"), "600"),
  OTP_MAX_ATTEMPTS: v.optional(integer(1, 10), "5"),
  OTP_PHONE_LIMITS: v.optional(listOf(parseLimit, 1, 4, "5@10m,6@4h (burst@interval)"), "5@10m,6@4h"),
  OTP_KEY_LIMIT: v.optional(
    v.union([v.literal("none"), limit], "must be a limit such as 1000@1ms, or none"),
    "1000@1ms",
  ),
  OTP_IP_SEND_LIMIT: v.optional(limit, "10@60s"),
  OTP_IP_VERIFY_LIMIT: v.optional(limit, "60@1s"),
  OTP_AUTH_FAILURE_LIMIT: v.optional(limit, "60@1s"),
  OTP_TRUSTED_PROXIES: v.optional(listOf(parseAddressRange, 1, 100, "10.0.0.0/8,2001:db8::7 (addresses and ranges)")),
  OTP_SHARED_NETWORKS: v.optional(listOf(parseAddressRange, 1, 100, "10.0.0.0/8,2001:db8::7 (addresses and ranges)")),
  OTP_EVENT_NETWORKS: v.optional(listOf(parseAddressRange, 1, 100, "10.8.0.0/16,fd12:3456::/32")),
  OTP_RESEND_GAPS: v.optional(listOf(parseGapMs, 1, 5, "30s,60s (1s to 10m each)"), "30s,60s"),
  OTP_RETENTION_HOURS: v.optional(integer(24, 2160, " hours"), "72"),
  OTP_ALLOWED_COUNTRIES: v.optional(
    v.union(
      [v.literal("*"), listOf(parseCountry, 1, 300, "NL,BE,DE (ISO 3166-1 alpha-2), or *")],
      "must be a list such as NL,BE,DE (ISO 3166-1 alpha-2), or *",
    ),
  ),
  OTP_FRAUD_GUARD: v.optional(oneOf(["observe", "enforce"]), "observe"),
  OTP_DAILY_MESSAGE_CAP: v.optional(integer(0, 100_000_000)),
  OTP_DAILY_SPEND_CAP: v.optional(money),
  OTP_PRICES_FILE: v.optional(v.string()),
  OTP_SEND_WAIT_MS: v.optional(integer(0, 10_000, " ms"), "2000"),
  OTP_IDLE_SECONDS: v.optional(integer(60, 86_400, " seconds"), "1800"),
  OTP_CONNECTION_MAX_AGE_SECONDS: v.optional(integer(0, 86_400, " seconds"), "0"),
  OTP_DRAIN_SECONDS: v.optional(integer(0, 300, " seconds"), "0"),
  OTP_MAX_CONNECTIONS: v.optional(integer(1, 100_000), "10000"),
  OTP_TLS_CERT_FILE: v.optional(v.string()),
  OTP_TLS_KEY_FILE: v.optional(v.string()),
  OTP_ADMIN: v.optional(oneOf(["off", "loopback", "on"])),
  OTP_ADMIN_PORT: v.optional(integer(0, 65_535), "8081"),
  OTP_CONSOLE_PROXY: v.optional(listOf(parseAddressRange, 1, 100, "127.0.0.1,10.0.0.0/8 (addresses and ranges)")),
  OTP_CONSOLE_USER_HEADER: v.optional(
    v.pipe(v.string(), v.regex(/^[0-9A-Za-z-]{1,60}$/, "must be the name of a header")),
    "X-Forwarded-User",
  ),
  OTP_CONSOLE_USERS: v.optional(
    listOf(
      parseConsoleUser,
      1,
      1_000,
      "alice@example.com=admin.read+admin.write,bob=admin.read/acme (user=scopes/tenant)",
    ),
  ),
  OTP_REFLECTION: v.optional(oneOf(["on", "off"])),
  OTP_DEMO: v.optional(oneOf(["on", "off"])),
  OTP_METRICS: v.optional(oneOf(["off", "loopback", "on"]), "loopback"),
  OTP_LOG_LEVEL: v.optional(oneOf(logLevels), "info"),
});

export type Given = v.InferOutput<typeof variables>;

/** The default of every variable; undefined where it has none. */
export function defaults(): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(variables.entries).map(([name, { default: value }]) => [name, value as string | undefined]),
  );
}

/** Secrets, which may also be given as the path of a file that holds them. */
export const secretNames: ReadonlySet<string> = new Set([
  "OTP_DATABASE_URL",
  "OTP_MASTER_KEY",
  ...ofProviders.filter(([, { isSecret }]) => isSecret).map(([name]) => name),
  "OTP_CHALLENGE_SECRET",
]);
