/**
 * OTP_HTTP_PROVIDERS_FILE in the configuration: its providers may be named in OTP_PROVIDERS, and their secrets come from
 * OTP_HTTP_ variables that the file names, and from nothing else.
 */
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/config.ts";
import { describedAs } from "../../src/delivery/providers/list.ts";
import { acme, everything } from "../support/data/http-providers.ts";
import { configOf, faultsOf, keyText } from "../support/service/environment.ts";

const files: Record<string, string> = {
  good: JSON.stringify(acme),
  rich: JSON.stringify(everything),
  bad: JSON.stringify({ providers: [{ ...acme.providers[0], url: 7, auth: { kind: "bearer", secret: "B" } }] }),
  "no JSON": "c4n4ry",
  secret: "from a file\n",
};
const readFile = (path: string) => {
  const text = files[path];
  if (text === undefined) throw new Error("no such file");
  return text;
};

const named = { OTP_HTTP_PROVIDERS_FILE: "good", OTP_PROVIDERS: "acme", OTP_ALLOWED_COUNTRIES: "NL" };
const secrets = { OTP_HTTP_ACME_KEY: "k", OTP_HTTP_ACME_REPORT_KEY: "r" };

test("a declared provider may be named, beside those that come with the service", () => {
  const config = configOf({ ...named, ...secrets, OTP_PROVIDERS: "acme,console" }, readFile);
  expect(config.providers.sms).toEqual(["acme", "console"]);
  expect(config.providerSettings.values).toMatchObject({ OTP_HTTP_ACME_KEY: "k", OTP_HTTP_ACME_REPORT_KEY: "r" });
  const { declared } = config.providerSettings;
  expect(describedAs("acme", declared)).toMatchObject({ reportSecret: "OTP_HTTP_ACME_REPORT_KEY" });
  expect(describedAs("console", declared).name).toBe("console");
});

test("a secret may be in a file, and not in both", () => {
  const { OTP_HTTP_ACME_KEY: _, ...rest } = secrets;
  const env = { ...named, ...rest, OTP_HTTP_ACME_KEY_FILE: "secret" };
  expect(configOf(env, readFile).providerSettings.values["OTP_HTTP_ACME_KEY"]).toBe("from a file");
  expect(faultsOf({ ...env, ...secrets }, readFile)).toEqual([
    "OTP_HTTP_ACME_KEY and OTP_HTTP_ACME_KEY_FILE are both set; set one of them.",
  ]);
});

test("its secrets are required once it is named, and not before", () => {
  expect(faultsOf(named, readFile)).toEqual([
    "OTP_HTTP_ACME_KEY is required by OTP_PROVIDERS=acme.",
    "OTP_HTTP_ACME_REPORT_KEY is required by OTP_PROVIDERS=acme.",
  ]);
  expect(faultsOf({ OTP_HTTP_PROVIDERS_FILE: "rich" }, readFile)).toEqual([]);
});

describe("a variable of another name is no secret of a provider", () => {
  test.each(["OTP_HTTP_OTHER", "OTP_HTTP_OTHER_FILE", "OTP_HTTP_ACME_KEY_FILE_FILE", "OTP_HTTP_acme_key", "OTP_HTTP_"])(
    "%s",
    (name) => {
      const env = { ...named, ...secrets, [name]: "secret" };
      expect(faultsOf(env, readFile)).toEqual([expect.stringContaining(`${name} is not a known variable.`)]);
    },
  );

  test("without a file none is known", () => {
    expect(faultsOf({ OTP_HTTP_ACME_KEY: "k" })).toEqual(["OTP_HTTP_ACME_KEY is not a known variable."]);
  });

  test("and the file cannot name the master key, nor itself", () => {
    const [provider] = acme.providers;
    for (const secret of ["../OTP_MASTER_KEY", "MASTER_KEY\u0000", "PROVIDERS", "X_FILE"]) {
      files["evil"] = JSON.stringify({ providers: [{ ...provider, auth: { kind: "bearer", secret } }] });
      const env = { ...named, OTP_HTTP_PROVIDERS_FILE: "evil", OTP_MASTER_KEY: keyText, ...secrets };
      expect(faultsOf(env, readFile)).toEqual([
        expect.stringMatching(/^OTP_HTTP_PROVIDERS_FILE \/providers\/0\/auth\/secret must be a name such as ACME_KEY/),
      ]);
    }
    files["evil"] = JSON.stringify({ providers: [{ ...provider, auth: { kind: "bearer", secret: "MASTER_KEY" } }] });
    const env = { ...named, OTP_HTTP_PROVIDERS_FILE: "evil", OTP_MASTER_KEY: keyText, ...secrets };
    expect(faultsOf(env, readFile)).toContain("OTP_HTTP_MASTER_KEY is required by OTP_PROVIDERS=acme.");
  });
});

test("a name that nobody declares is refused, and those there are are told", () => {
  expect(faultsOf({ OTP_PROVIDERS: "acme" })).toEqual([
    "OTP_PROVIDERS must be one of console, messagebird, bird, webhook, or an entry of OTP_HTTP_PROVIDERS_FILE.",
  ]);
  const env = { ...named, ...secrets, OTP_PROVIDERS: "acme,acne" };
  expect(faultsOf(env, readFile)).toEqual(["OTP_PROVIDERS must be one of console, messagebird, bird, webhook, acme."]);
});

test("the file's faults are told with all others, each by its pointer, and nothing that follows from them", () => {
  const env = { ...named, OTP_HTTP_PROVIDERS_FILE: "bad", OTP_PORT: "x", OTP_HTTP_B: "b" };
  expect(faultsOf(env, readFile)).toEqual([
    "OTP_PORT must be a whole number.",
    "OTP_HTTP_PROVIDERS_FILE /providers/0/url must be a text.",
  ]);
});

test.each([
  ["no JSON", "OTP_HTTP_PROVIDERS_FILE is not JSON."],
  ["nowhere", "OTP_HTTP_PROVIDERS_FILE names a file that cannot be read."],
])("a file that is %s is one fault, and is not quoted", (path, fault) => {
  const parsed = parseConfig({ ...named, ...secrets, OTP_HTTP_PROVIDERS_FILE: path }, readFile);
  expect(parsed).toEqual({ ok: false, faults: [fault], warnings: [] });
});

describe("a secret that cannot be one is told, and not repeated", () => {
  const rich = {
    ...named,
    OTP_HTTP_PROVIDERS_FILE: "rich",
    OTP_PROVIDERS: "rich,plain,token",
    OTP_HTTP_RICH_PASSWORD: "pässword",
    OTP_HTTP_RICH_PUBLIC_KEY: Buffer.alloc(32, 7).toString("base64"),
    OTP_HTTP_PLAIN_PASSWORD: "p",
    OTP_HTTP_PLAIN_PATH: "q7Zk2mV9xT4bR8nW3cY6pL",
    OTP_HTTP_TOKEN: "t",
    OTP_HTTP_TOKEN_SIGNATURE: "s",
  };
  test("and good ones are taken", () => expect(faultsOf(rich, readFile)).toEqual([]));

  test.each([
    ["OTP_HTTP_RICH_PASSWORD", "a\r\nX-Evil: c4n4ry"],
    ["OTP_HTTP_RICH_PASSWORD", "c4n4ry\u0000"],
    ["OTP_HTTP_RICH_PASSWORD", "c4n4ry".repeat(700)],
    ["OTP_HTTP_TOKEN", "c4n4ry–"],
    ["OTP_HTTP_RICH_PUBLIC_KEY", "c4n4ry"],
    ["OTP_HTTP_PLAIN_PATH", "c4n4ry"],
    ["OTP_HTTP_PLAIN_PATH", "aB3dE5gH7jK9mN1pQ3rS5"],
    ["OTP_HTTP_PLAIN_PATH", "c4n4ry/c4n4ry/c4n4ry/c4n4ry/"],
    ["OTP_HTTP_PLAIN_PATH", "c4n4ryc4n4ryc4n4ryc4n4ry"],
    ["OTP_HTTP_PLAIN_PATH", "0123456789abcdef01234567"],
    ["OTP_HTTP_PLAIN_PATH", "abcdefghijklmnopqrstuvwxyzabcdef"],
  ])("%s", (name, value) => {
    const faults = faultsOf({ ...rich, [name]: value }, readFile);
    expect(faults).toEqual([expect.stringMatching(new RegExp(`^${name} must be [^.]+\\.$`))]);
    expect(faults.join()).not.toContain("c4n4ry");
  });
});
