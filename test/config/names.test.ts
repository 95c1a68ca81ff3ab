/**
 * Which variables are ours: known names, files of secrets, what Kubernetes injects; and that nothing told holds a value.
 */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, expect, test } from "vitest";
import { parseConfig, parseDatabase } from "../../src/config/config.ts";
import {
  configOf,
  faultsOf,
  keyText,
  noFiles,
  olderKeyText,
  production,
  webhookSecret,
} from "../support/service/environment.ts";

describe("a name that nobody knows is refused", () => {
  test.each([
    ["OTP_PROT", " Did you mean OTP_PORT?"],
    ["OTP_PHONE_LIMIT", " Did you mean OTP_PHONE_LIMITS?"],
    ["OTP_TTL_SECOND", " Did you mean OTP_TTL_SECONDS?"],
    ["OTP_MASTERKEY", " Did you mean OTP_MASTER_KEY?"],
    ["OTP_CODE_LENGHT", " Did you mean OTP_CODE_LENGTH?"],
    ["OTP_MASTER_KEY_FLIE", ""],
    ["OTP_REDIS_URL", ""],
    ["OTP_port", ""],
    ["OTP_PORT_FILE", ""],
    ["OTP_", ""],
    ["OTP_toString", ""],
    ["OTP_SERVICE", ""],
    ["OTP_PORT_8080", ""],
    ["OTP_PORT_8080_TCP_HOST", ""],
    ["OTP_PORT_8080_HTTP", ""],
  ])("%s.%s", (name, suggestion) => {
    expect(faultsOf({ [name]: "1" })).toEqual([`${name} is not a known variable.${suggestion}`]);
  });
});

describe("a secret may be in a file", () => {
  const secrets = [
    ["OTP_DATABASE_URL", "postgres://otp:secret@db:5432/otp"],
    ["OTP_MASTER_KEY", keyText],
    ["OTP_MESSAGEBIRD_ACCESS_KEY", "live_abc"],
    ["OTP_MESSAGEBIRD_SIGNING_KEY", "signing"],
    ["OTP_BIRD_API_KEY", "bk_eu1_abc"],
    ["OTP_BIRD_WEBHOOK_SECRET", webhookSecret],
    ["OTP_WEBHOOK_SECRET", webhookSecret],
  ] as const;

  test.each(secrets)("%s_FILE is read", (name, secret) => {
    const asked: string[] = [];
    const readFile = (path: string) => {
      asked.push(path);
      return `${secret}\n`;
    };
    expect(faultsOf({ [`${name}_FILE`]: "/run/secrets/it" }, readFile)).toEqual([]);
    expect(asked).toEqual(["/run/secrets/it"]);
  });

  test("the file's text counts, without the newline at its end", () => {
    const { masterKeys } = configOf({ OTP_MASTER_KEY_FILE: "key" }, () => `${keyText},${olderKeyText}\r\n`);
    expect(masterKeys?.map((bytes) => Buffer.from(bytes).toString("base64url"))).toEqual([keyText, olderKeyText]);
  });

  test("and so it does for a provider", () => {
    const env = {
      OTP_PROVIDERS: "messagebird",
      OTP_ALLOWED_COUNTRIES: "*",
      OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
      OTP_MESSAGEBIRD_ACCESS_KEY_FILE: "/run/secrets/it",
    };
    expect(configOf(env, () => "live_abc\n").providerSettings.values["OTP_MESSAGEBIRD_ACCESS_KEY"]).toBe("live_abc");
  });

  test.each(secrets)("%s is refused beside its file", (name, secret) => {
    expect(faultsOf({ [name]: secret, [`${name}_FILE`]: "/run/secrets/it" }, () => secret)).toEqual([
      `${name} and ${name}_FILE are both set; set one of them.`,
    ]);
  });

  test("a file that cannot be read is one fault, in production too", () => {
    const { OTP_MASTER_KEY: _, ...rest } = production;
    expect(faultsOf({ ...rest, OTP_MASTER_KEY_FILE: "/nowhere" })).toEqual([
      "OTP_MASTER_KEY_FILE names a file that cannot be read.",
    ]);
    const read = (path: string) => readFileSync(path, "utf8");
    const env = { OTP_MASTER_KEY_FILE: tmpdir(), OTP_TEMPLATES_FILE: `${tmpdir()}/c4n4ry/texts.json` };
    expect(faultsOf({ ...rest, ...env }, read).toSorted()).toEqual([
      "OTP_MASTER_KEY_FILE names a file that is a folder.",
      "OTP_TEMPLATES_FILE names a file that is not there.",
    ]);
  });

  test("an empty file is a wrong secret, not a missing one", () => {
    expect(faultsOf({ OTP_MASTER_KEY_FILE: "key" }, () => "\n")).toEqual([
      "OTP_MASTER_KEY must be a list such as <key>,<older key>, each 32 bytes in base64url without padding.",
    ]);
  });

  test("what is no secret is not read from a file", () => {
    expect(faultsOf({ OTP_BRAND_FILE: "brand" }, () => "Acme")).toEqual(["OTP_BRAND_FILE is not a known variable."]);
  });
});

describe("what is told never holds a value", () => {
  const canary = "c4n4ry-5ecret";
  const known = [
    "OTP_ENV",
    "OTP_HOST",
    "OTP_PORT",
    "OTP_DATABASE_URL",
    "OTP_MASTER_KEY",
    "OTP_PROVIDERS",
    "OTP_PUBLIC_URL",
    "OTP_ORIGINATORS",
    "OTP_MESSAGEBIRD_BASE_URL",
    "OTP_BIRD_API_KEY",
    "OTP_BIRD_WEBHOOK_SECRET",
    "OTP_WEBHOOK_URL",
    "OTP_WEBHOOK_SECRET",
    "OTP_CHALLENGE_VERIFY_URL",
    "OTP_CHALLENGE_SECRET",
    "OTP_CODE_LENGTH",
    "OTP_GUESS_POLICY",
    "OTP_TTL_SECONDS",
    "OTP_PHONE_LIMITS",
    "OTP_RESEND_GAPS",
    "OTP_ALLOWED_COUNTRIES",
    "OTP_LOG_LEVEL",
    "OTP_TEMPLATES_FILE",
    "OTP_UNKNOWN_TOKEN",
  ];

  test.each(known)("of %s", (name) => {
    const value = `${canary} \u0000`;
    const parsed = parseConfig({ [name]: value }, noFiles);
    expect(parsed.ok ? [] : parsed.faults).not.toEqual([]);
    expect(JSON.stringify(parsed)).not.toContain(canary);
  });

  test("of a secret that is right where another variable is wrong", () => {
    const parsed = parseConfig({ ...production, OTP_PORT: "http", OTP_MASTER_KEY_FILE: canary }, () => olderKeyText);
    const text = JSON.stringify(parsed);
    expect(parsed.ok).toBe(false);
    for (const secret of [keyText, olderKeyText, webhookSecret, canary]) expect(text).not.toContain(secret);
  });

  test("of a key that belongs to another provider", () => {
    const parsed = parseConfig({ OTP_MESSAGEBIRD_ACCESS_KEY: `bk_${canary}` }, noFiles);
    expect(parsed).toMatchObject({ ok: false });
    expect(JSON.stringify(parsed)).not.toContain(canary);
  });
});

describe("what Kubernetes injects for a Service named otp", () => {
  const injected = {
    OTP_SERVICE_HOST: "10.0.0.7",
    OTP_SERVICE_PORT: "8080",
    OTP_SERVICE_PORT_GRPC: "8080",
    OTP_SERVICE_PORT_HTTP_METRICS: "9090",
    OTP_PORT: "tcp://10.0.0.7:8080",
    OTP_PORT_8080_TCP: "tcp://10.0.0.7:8080",
    OTP_PORT_8080_TCP_PROTO: "tcp",
    OTP_PORT_8080_TCP_PORT: "8080",
    OTP_PORT_8080_TCP_ADDR: "10.0.0.7",
    OTP_PORT_53_UDP: "udp://10.0.0.7:53",
    OTP_PORT_53_UDP_PROTO: "udp",
  };

  test("is ignored, with one warning that names it all", () => {
    const parsed = parseConfig(injected, noFiles);
    expect(parsed).toMatchObject({ ok: true, value: { port: 8080 } });
    expect(parsed.warnings).toEqual([
      `ignored ${Object.keys(injected).join(", ")}: they look like Kubernetes' variables for a Service named otp`,
    ]);
  });

  test.each(Object.entries(injected))("also %s=%s alone", (name, value) => {
    const parsed = parseConfig({ [name]: value }, noFiles);
    expect(parsed).toMatchObject({ ok: true, value: { port: 8080 } });
    expect(parsed.warnings).toHaveLength(1);
  });

  test.each(["udp://10.0.0.7:53", "sctp://10.0.0.7:9"])(
    "also OTP_PORT=%s, of a Service whose first port is no TCP",
    (value) => {
      expect(parseConfig({ OTP_PORT: value }, noFiles).ok).toBe(true);
    },
  );

  test("does not hide faults, and the warning comes with them", () => {
    const parsed = parseConfig({ ...injected, OTP_BRAND: "2 fast" }, noFiles);
    expect(parsed).toMatchObject({ ok: false, faults: [expect.stringMatching(/^OTP_BRAND /)] });
    expect(parsed.warnings).toHaveLength(1);
  });

  test("leaves another port as refusable as ever", () => {
    expect(faultsOf({ OTP_PORT: "http://10.0.0.7:8080" })).toEqual(["OTP_PORT must be a whole number."]);
  });
});

describe("a command beside the server", () => {
  test("needs the database's path, and nothing else of the configuration", () => {
    expect(parseDatabase({}, noFiles)).toMatchObject({ ok: true, value: { path: "./data/otp.db" } });
    expect(parseDatabase({ OTP_DATABASE_URL: "" }, noFiles)).toMatchObject({
      ok: true,
      value: { path: "./data/otp.db" },
    });
    expect(parseDatabase({ OTP_DATABASE_URL: "file:/x.db", OTP_PORT: "no" }, noFiles)).toMatchObject({
      value: { path: "/x.db" },
    });
    expect(parseDatabase({ OTP_DATABASE_URL: "c4n4ry" }, noFiles)).toEqual({
      ok: false,
      faults: [
        "OTP_DATABASE_URL must be file:<path>, such as file:./data/otp.db, or postgres://user:password@host:5432/database.",
      ],
      warnings: [],
    });
  });

  test("takes the database from a file too, and nothing for granted where the file is no good", () => {
    const env = { OTP_DATABASE_URL_FILE: "/run/secrets/it" };
    const url = "postgres://otp:c4n4ry@db/otp";
    expect(parseDatabase(env, () => `${url}\n`)).toMatchObject({ ok: true, value: { kind: "postgres", url } });
    const wrong = [
      parseDatabase(env, noFiles),
      parseDatabase(env, () => "\n"),
      parseDatabase({ ...env, OTP_DATABASE_URL: url }, () => url),
    ];
    expect(wrong.map((parsed) => (parsed.ok ? parsed.value : parsed.faults))).toEqual([
      ["OTP_DATABASE_URL_FILE names a file that cannot be read."],
      [expect.stringMatching(/^OTP_DATABASE_URL must be file:<path>/)],
      ["OTP_DATABASE_URL and OTP_DATABASE_URL_FILE are both set; set one of them."],
    ]);
  });
});

test("a key behind the first may be marked as leaked", () => {
  const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "base64url"));
  const { masterKeys, leakedKeys } = configOf({ OTP_MASTER_KEY: `${keyText},${olderKeyText}:leaked` });
  expect(masterKeys?.map((bytes) => new Uint8Array(bytes))).toEqual([keyText, olderKeyText].map(bytesOf));
  expect(leakedKeys).toEqual(masterKeys?.slice(1));
  const first = { OTP_MASTER_KEY: `${keyText}:leaked,${olderKeyText}` };
  expect(faultsOf(first)).toEqual(["OTP_MASTER_KEY must begin with a key that has not leaked."]);
});
