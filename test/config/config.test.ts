import { describe, expect, test } from "vitest";
import { parseConfig, type Config } from "../../src/config/config.ts";
import { parseDurationMs } from "../../src/config/shapes.ts";
import { providerNames } from "../../src/delivery/providers/list.ts";
import { configOf, faultsOf, keyText, noFiles, olderKeyText, production } from "../support/service/environment.ts";
import { dayMs, hourMs, minuteMs, policy, secondMs } from "../support/data/examples.ts";

const known = `${providerNames.join(", ")}, or an entry of OTP_HTTP_PROVIDERS_FILE`;
describe("without any variable", () => {
  test("everything has its documented value, and nothing is warned of", () => {
    const parsed = parseConfig({}, noFiles);
    expect(parsed.warnings).toEqual([]);
    expect(parsed).toMatchObject({
      ok: true,
      value: {
        environment: "development",
        host: "127.0.0.1",
        port: 8080,
        database: { kind: "sqlite", path: "./data/otp.db" },
        dataFolder: "./data",
        masterKeys: undefined,
        leakedKeys: [],
        providers: { sms: ["console"], voice: [], whatsapp: [] },
        brand: "otpd",
        sendWaitMs: 2 * secondMs,
        idleMs: 30 * minuteMs,
        connectionMaxAgeMs: 0,
        connectionsMax: 10_000,
        tls: undefined,
        keyLimit: { burst: 1_000, intervalMs: 1 },
        authFailureLimit: { burst: 60, intervalMs: secondMs },
        trustedProxies: [],
        logLevel: "info",
      },
    });
  });

  test("the policy is the one that the other tests decide by", () => {
    expect(configOf({}).policy).toEqual(policy);
  });

  test("variables of others do not matter, nor do empty ones", () => {
    const env = {
      PATH: "/bin",
      otp_port: "1",
      NOTOTP_PORT: "1",
      OTP: "1",
      OTPORT: "1",
      OTP_PORT: "",
      OTP_NONSENSE: "",
    };
    expect(configOf(env)).toMatchObject({ port: 8080 });
    expect(configOf({ OTP_PORT: undefined }).port).toBe(8080);
  });
});

describe("a variable with bounds", () => {
  test.each<[name: string, min: number, max: number, unit: string, read: (config: Config) => unknown, scale: number]>([
    ["OTP_PORT", 0, 65_535, "", ({ port }) => port, 1],
    ["OTP_CODE_LENGTH", 6, 10, "", (config) => config.policy.codeLength, 1],
    ["OTP_CODE_LENGTH_MAX", 6, 10, "", (config) => config.policy.codeLengthMax, 1],
    ["OTP_TTL_SECONDS", 180, 600, " seconds", (config) => config.policy.ttlMs, secondMs],
    ["OTP_MAX_ATTEMPTS", 1, 10, "", (config) => config.policy.attemptsMax, 1],
    ["OTP_RETENTION_HOURS", 24, 2_160, " hours", (config) => config.policy.retentionMs, hourMs],
    ["OTP_SEND_WAIT_MS", 0, 10_000, " ms", ({ sendWaitMs }) => sendWaitMs, 1],
    ["OTP_DAILY_MESSAGE_CAP", 0, 100_000_000, "", (config) => config.policy.dailyMessagesMax ?? 0, 1],
    ["OTP_IDLE_SECONDS", 60, 86_400, " seconds", ({ idleMs }) => idleMs, secondMs],
    ["OTP_DRAIN_SECONDS", 0, 300, " seconds", (config) => config.drainMs, secondMs],
    ["OTP_CONNECTION_MAX_AGE_SECONDS", 0, 86_400, " seconds", (config) => config.connectionMaxAgeMs, secondMs],
    ["OTP_MAX_CONNECTIONS", 1, 100_000, "", ({ connectionsMax }) => connectionsMax, 1],
  ])("%s is from %i to %i%s", (name, min, max, unit, read, scale) => {
    expect(read(configOf({ [name]: String(min) }))).toBe(min * scale);
    expect(read(configOf({ [name]: String(max) }))).toBe(max * scale);
    expect(faultsOf({ [name]: String(max + 1) })).toEqual([`${name} must be at most ${max}${unit}.`]);
    const noNumber = `${name} must be a whole number${unit && ` of ${unit.trim().replace(/^ms$/, "milliseconds")}`}.`;
    const tooLow = min === 0 ? noNumber : `${name} must be at least ${min}${unit}.`;
    expect(faultsOf({ [name]: String(min - 1) })).toEqual([tooLow]);
    for (const text of ["six", "6.5", "6e1", "0x6", " 6", "6 ", "+6", "6s", "NaN", "６", "1".repeat(10), "6\n"]) {
      expect(faultsOf({ [name]: text })).toEqual([noNumber]);
    }
  });
});

describe("a variable of a kind", () => {
  const key = (bytes: number) => Buffer.alloc(bytes, 1).toString("base64url");

  test.each<[name: string, text: string, read: (config: Config) => unknown, value: unknown]>([
    ["OTP_ENV", "development", ({ environment }) => environment, "development"],
    ["OTP_HOST", "0.0.0.0", ({ host }) => host, "0.0.0.0"],
    ["OTP_HOST", "::1", ({ host }) => host, "::1"],
    ["OTP_HOST", "otp.internal", ({ host }) => host, "otp.internal"],
    [
      "OTP_DATABASE_URL",
      "file:/var/lib/otp/otp.db",
      (config) => config.database,
      { kind: "sqlite", path: "/var/lib/otp/otp.db" },
    ],
    ["OTP_DATABASE_URL", "file:/var/lib/otp/otp.db", (config) => config.dataFolder, "/var/lib/otp"],
    [
      "OTP_DATABASE_URL",
      "postgres://a:b@db/otp",
      (config) => config.database,
      { kind: "postgres", url: "postgres://a:b@db/otp" },
    ],
    ["OTP_DATABASE_URL", "postgresql://a:b@db/otp", (config) => config.dataFolder, "./data"],
    ["OTP_MASTER_KEY", key(32), (config) => config.masterKeys?.length, 1],
    [
      "OTP_MASTER_KEY",
      `${keyText}, ${olderKeyText}`,
      (config) => config.masterKeys?.map(([byte]) => byte),
      [0xa5, 0x5a],
    ],
    ["OTP_BRAND", "Café Ünïcode & Söhne", ({ brand }) => brand, "Café Ünïcode & Söhne"],
    ["OTP_BRAND", "B".repeat(40), ({ brand }) => brand, "B".repeat(40)],
    ["OTP_BRAND", "Studio 54", ({ brand }) => brand, "Studio 54"],
    ["OTP_GUESS_POLICY", "strict", (config) => config.policy.guessPolicy, "strict"],
    ["OTP_PHONE_LIMITS", "1@1s", (config) => config.policy.phoneLimits, [{ burst: 1, intervalMs: secondMs }]],
    [
      "OTP_PHONE_LIMITS",
      "3@90s, 5@10m,6@4h,9999@90d",
      (config) => config.policy.phoneLimits,
      [
        { burst: 3, intervalMs: 90 * secondMs },
        { burst: 5, intervalMs: 10 * minuteMs },
        { burst: 6, intervalMs: 4 * hourMs },
        { burst: 9_999, intervalMs: 90 * dayMs },
      ],
    ],
    ["OTP_RESEND_GAPS", "1s", (config) => config.policy.resendGapsMs, [secondMs]],
    [
      "OTP_RESEND_GAPS",
      "30,1m,2m,5m,10m",
      (config) => config.policy.resendGapsMs,
      [30, 60, 120, 300, 600].map((s) => s * secondMs),
    ],
    ["OTP_ALLOWED_COUNTRIES", "*", (config) => config.policy.allowedCountries, undefined],
    ["OTP_ALLOWED_COUNTRIES", "NL", (config) => config.policy.allowedCountries, new Set(["NL"])],
    ["OTP_ALLOWED_COUNTRIES", "nl, GG,XK", (config) => config.policy.allowedCountries, new Set(["NL", "GG", "XK"])],
    ["OTP_KEY_LIMIT", "1000@1ms", ({ keyLimit }) => keyLimit, { burst: 1_000, intervalMs: 1 }],
    ["OTP_KEY_LIMIT", "1@999999ms", ({ keyLimit }) => keyLimit, { burst: 1, intervalMs: 999_999 }],
    ["OTP_KEY_LIMIT", "none", ({ keyLimit }) => keyLimit, undefined],
    ["OTP_IP_SEND_LIMIT", "200@1s", (config) => config.addressLimits.sends, { burst: 200, intervalMs: secondMs }],
    ["OTP_IP_VERIFY_LIMIT", "5@500ms", (config) => config.addressLimits.calls, { burst: 5, intervalMs: 500 }],
    ["OTP_AUTH_FAILURE_LIMIT", "5@1m", (config) => config.authFailureLimit, { burst: 5, intervalMs: minuteMs }],
    ["OTP_REFLECTION", "off", ({ reflection }) => reflection, false],
    ["OTP_DEMO", "off", ({ demo }) => demo, false],
    ["OTP_METRICS", "off", ({ metrics }) => metrics, "off"],
    ["OTP_METRICS", "on", ({ metrics }) => metrics, "on"],
    ["OTP_LOG_LEVEL", "silent", ({ logLevel }) => logLevel, "silent"],
  ])("%s=%j is read", (name, text, read, value) => {
    expect(read(configOf({ [name]: text }))).toEqual(value);
  });

  test.each([
    ["OTP_ENV", ["prod", "Production", "test"], "must be one of development, production"],
    ["OTP_HOST", ["a b", "http://localhost", "[::1]", "localhost/", "host\n"], "must be an address or a host name"],
    [
      "OTP_DATABASE_URL",
      ["otp.db", "file:", "sqlite:otp.db", "FILE:otp.db"],
      "must be file:<path>, such as file:./data/otp.db, or postgres://user:password@host:5432/database",
    ],
    [
      "OTP_MASTER_KEY",
      [
        key(31),
        key(33),
        key(0) || ",",
        `${key(32)}=`,
        `${key(32)},`,
        `${key(32)},x`,
        "+/".repeat(21) + "8",
        "secret",
        key(32).slice(0, -1) + "F",
      ],
      "must be a list such as <key>,<older key>, each 32 bytes in base64url without padding",
    ],
    ["OTP_MASTER_KEY", [Array<string>(9).fill(key(32)).join(",")], "must have at most 8 entries"],
    ["OTP_PROVIDERS", ["twilio", "Console", "console,", ","], `must be one of ${known}`],
    ["OTP_BRAND", ["B".repeat(41)], "must have at most 40 characters"],
    [
      "OTP_BRAND",
      [
        "1234 is your code",
        "two\nlines",
        "two\u2028lines",
        "two\u2029lines",
        "nul\0",
        "bidi\u202e",
        "zero\u200bwidth",
        " ",
        "\u00a0",
        " otpd",
        "\ud800",
      ],
      "must be one line of visible text that does not begin with a digit",
    ],
    ["OTP_GUESS_POLICY", ["lock", "Strict"], "must be one of lengthen, strict"],
    [
      "OTP_PHONE_LIMITS",
      [
        "5",
        "5@",
        "@10m",
        "0@10m",
        "5@0s",
        "5@0",
        "5/10m",
        "5@10 m",
        "5@10w",
        "5@10m,",
        "-5@10m",
        "5@91d",
        "5@999999d",
        "10000@1s",
        "5@1.5h",
        "5@999ms",
      ],
      "must be a list such as 5@10m,6@4h (burst@interval)",
    ],
    ["OTP_PHONE_LIMITS", ["1@1s,1@2s,1@3s,1@4s,1@5s"], "must have at most 4 entries"],
    [
      "OTP_RESEND_GAPS",
      ["0s", "0", "11m", "601s", "1h", "30s;60s", "soon", "30s,"],
      "must be a list such as 30s,60s (1s to 10m each)",
    ],
    ["OTP_RESEND_GAPS", ["1s,1s,1s,1s,1s,1s"], "must have at most 5 entries"],
    [
      "OTP_ALLOWED_COUNTRIES",
      ["NLD", "Netherlands", "31", "NL;BE", "NL,,BE", "*,NL", "EU", "UK"],
      "must be a list such as NL,BE,DE (ISO 3166-1 alpha-2), or *",
    ],
    [
      "OTP_KEY_LIMIT",
      ["1000", "0@1ms", "1@0ms", "10000@1ms", "off", "1000@1ms,1@1s"],
      "must be a limit such as 1000@1ms, or none",
    ],
    ...["OTP_IP_SEND_LIMIT", "OTP_IP_VERIFY_LIMIT", "OTP_AUTH_FAILURE_LIMIT"].map(
      (name): [string, string[], string] => [
        name,
        ["60", "none", "60@1us", "60@1000000000ms"],
        "must be a limit such as 60@1s or 1000@1ms (burst@interval)",
      ],
    ),
    ["OTP_REFLECTION", ["true", "ON"], "must be one of on, off"],
    ["OTP_METRICS", ["true", "local"], "must be one of off, loopback, on"],
    ["OTP_DEMO", ["true", "yes"], "must be one of on, off"],
    ["OTP_LOG_LEVEL", ["verbose", "INFO"], "must be one of trace, debug, info, warn, error, fatal, silent"],
  ])("%s refuses %j", (name, texts, sentence) => {
    for (const text of texts) expect([text, faultsOf({ [name]: text })]).toEqual([text, [`${name} ${sentence}.`]]);
  });

  test("durations have a unit, or are seconds", () => {
    const texts = ["0", "90", "90s", "10m", "4h", "1d", "", "s", "1w", "1.5h", "-1s", "1 s", "1234567s"];
    expect(texts.map(parseDurationMs)).toEqual([
      0,
      90 * secondMs,
      90 * secondMs,
      10 * minuteMs,
      4 * hourMs,
      dayMs,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe("variables that go together", () => {
  test("a code is never longer than its longest: a length alone lifts the maximum with it", () => {
    expect(configOf({ OTP_CODE_LENGTH: "10" }).policy).toMatchObject({ codeLength: 10, codeLengthMax: 10 });
    expect(configOf({ OTP_CODE_LENGTH: "7", OTP_CODE_LENGTH_MAX: "7" }).policy.codeLengthMax).toBe(7);
    expect(faultsOf({ OTP_CODE_LENGTH: "8", OTP_CODE_LENGTH_MAX: "7" })).toEqual([
      "OTP_CODE_LENGTH_MAX must be at least OTP_CODE_LENGTH.",
    ]);
  });

  test("a certificate has its key", () => {
    const both = { OTP_TLS_CERT_FILE: "cert.pem", OTP_TLS_KEY_FILE: "key.pem" };
    expect(configOf(both).tls).toEqual({ certFile: "cert.pem", keyFile: "key.pem" });
    const sentence = "OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE go together; set both or neither.";
    expect(faultsOf({ OTP_TLS_CERT_FILE: "cert.pem" })).toEqual([sentence]);
    expect(faultsOf({ OTP_TLS_KEY_FILE: "key.pem" })).toEqual([sentence]);
  });

  test("the bot check's URL has its secret", () => {
    const url = "https://challenges.example/siteverify?v=0";
    expect(configOf({}).botCheck).toBeUndefined();
    const both = { OTP_CHALLENGE_VERIFY_URL: url, OTP_CHALLENGE_SECRET: "s3cret" };
    const { botCheck } = configOf(both);
    expect([botCheck?.verifyUrl.href, botCheck?.secret.reveal()]).toEqual([url, "s3cret"]);
    expect(JSON.stringify(botCheck)).not.toContain("s3cret");
    const fromFile = { OTP_CHALLENGE_VERIFY_URL: url, OTP_CHALLENGE_SECRET_FILE: "/run/secret" };
    expect(configOf(fromFile, () => "s3cret\n").botCheck?.secret.reveal()).toBe("s3cret");
    expect(faultsOf({ OTP_CHALLENGE_VERIFY_URL: url })).toEqual([
      "OTP_CHALLENGE_SECRET is required by OTP_CHALLENGE_VERIFY_URL; set both or neither.",
    ]);
    for (const env of [{ OTP_CHALLENGE_SECRET: "s" }, { OTP_CHALLENGE_SECRET_FILE: "/run/secret" }]) {
      expect(faultsOf(env, () => "s")).toEqual([
        "OTP_CHALLENGE_VERIFY_URL is required by OTP_CHALLENGE_SECRET; set both or neither.",
      ]);
    }
    expect(faultsOf(fromFile, () => "\n")).toEqual(["OTP_CHALLENGE_SECRET must be 1 to 256 visible ASCII characters."]);
    for (const unsafe of ["http://challenges.example/siteverify", "https://u:p@challenges.example/", "siteverify"]) {
      expect(faultsOf({ ...both, OTP_CHALLENGE_VERIFY_URL: unsafe })).toEqual([
        "OTP_CHALLENGE_VERIFY_URL must be an https URL (http only for this machine).",
      ]);
    }
    expect(configOf({ ...both, OTP_CHALLENGE_VERIFY_URL: "http://127.0.0.1:8090/" }).botCheck).toBeDefined();
  });

  test("a provider that sends has all it needs, and a country list", () => {
    expect(faultsOf({ OTP_PROVIDERS: "messagebird,bird,webhook,messagebird" })).toEqual([
      "OTP_ALLOWED_COUNTRIES is required with a provider that sends: a list such as NL,BE,DE, or * for all.",
      "OTP_PROVIDERS names a provider twice.",
      "OTP_MESSAGEBIRD_ACCESS_KEY is required by OTP_PROVIDERS=messagebird.",
      "OTP_MESSAGEBIRD_ORIGINATOR is required by OTP_PROVIDERS=messagebird.",
      "OTP_BIRD_API_KEY is required by OTP_PROVIDERS=bird.",
      "OTP_BIRD_ORIGINATOR is required by OTP_PROVIDERS=bird.",
      "OTP_WEBHOOK_URL is required by OTP_PROVIDERS=webhook.",
      "OTP_WEBHOOK_SECRET is required by OTP_PROVIDERS=webhook.",
    ]);
  });
});

describe("production", () => {
  const refusals = {
    console: "OTP_PROVIDERS must not name console in production: it prints every code.",
    key: "OTP_MASTER_KEY (or OTP_MASTER_KEY_FILE) is required in production: 32 random bytes in base64url, kept apart from the database.",
    countries: "OTP_ALLOWED_COUNTRIES is required in production: a list such as NL,BE,DE, or * for all.",
    cap: "OTP_DAILY_MESSAGE_CAP is required in production: how many SMS a day you would pay for, such as 5000.",
  };

  test("starts with a way out, a key, a country list and a daily cap", () => {
    expect(configOf(production)).toMatchObject({ environment: "production", providers: { sms: ["webhook"] } });
    // What the server speaks is told to strangers in development alone, unless it is asked for.
    expect([configOf(production).reflection, configOf({}).reflection]).toEqual([false, true]);
    expect([configOf(production).demo, configOf({}).demo]).toEqual([false, true]);
    expect(configOf({ ...production, OTP_REFLECTION: "on" }).reflection).toBe(true);
    expect(configOf({ ...production, OTP_ALLOWED_COUNTRIES: "*" }).policy.allowedCountries).toBeUndefined();
  });

  test("refuses a demo", () => {
    expect(faultsOf({ ...production, OTP_DEMO: "on" })).toEqual([
      "OTP_DEMO must not be on in production: whoever has the page's link has a key, and can read codes.",
    ]);
  });

  test("refuses the console provider, a generated key, a missing country list and no daily cap, all at once", () => {
    expect(faultsOf({ OTP_ENV: "production" })).toEqual(Object.values(refusals));
  });

  test.each([
    ["the console provider", { OTP_PROVIDERS: "console" }, refusals.console],
    ["the console provider behind another", { OTP_PROVIDERS: "webhook,console" }, refusals.console],
    ["a generated key", { OTP_MASTER_KEY: "" }, refusals.key],
    ["a missing country list", { OTP_ALLOWED_COUNTRIES: "" }, refusals.countries],
    ["a missing daily cap", { OTP_DAILY_MESSAGE_CAP: "" }, refusals.cap],
    ["a daily cap of none", { OTP_DAILY_MESSAGE_CAP: "0" }, refusals.cap],
    [
      "a daily cap that is no number",
      { OTP_DAILY_MESSAGE_CAP: "many" },
      "OTP_DAILY_MESSAGE_CAP must be a whole number.",
    ],
  ])("refuses %s alone", (_, change, sentence) => {
    expect(faultsOf({ ...production, ...change })).toEqual([sentence]);
  });

  test("takes a key from a file", () => {
    const { OTP_MASTER_KEY: _, ...rest } = production;
    expect(configOf({ ...rest, OTP_MASTER_KEY_FILE: "/run/key" }, () => keyText).masterKeys).toHaveLength(1);
  });
});

test("all that is wrong is told together, whatever kind it is", () => {
  const env = {
    OTP_ENV: "production",
    OTP_PORT: "http",
    OTP_TTL_SECONDS: "601",
    OTP_MASTER_KEY: "short",
    OTP_CODE_LENGTH: "8",
    OTP_CODE_LENGTH_MAX: "7",
    OTP_TLS_CERT_FILE: "cert.pem",
    OTP_MAX_ATTEMPT: "5",
  };
  expect(faultsOf(env)).toEqual([
    "OTP_MAX_ATTEMPT is not a known variable. Did you mean OTP_MAX_ATTEMPTS?",
    "OTP_PORT must be a whole number.",
    "OTP_MASTER_KEY must be a list such as <key>,<older key>, each 32 bytes in base64url without padding.",
    "OTP_TTL_SECONDS must be at most 600 seconds.",
    "OTP_CODE_LENGTH_MAX must be at least OTP_CODE_LENGTH.",
    "OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE go together; set both or neither.",
    "OTP_PROVIDERS must not name console in production: it prints every code.",
    "OTP_ALLOWED_COUNTRIES is required in production: a list such as NL,BE,DE, or * for all.",
    "OTP_DAILY_MESSAGE_CAP is required in production: how many SMS a day you would pay for, such as 5000.",
  ]);
});
