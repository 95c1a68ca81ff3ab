/**
 * `otpd doctor`, as an operator runs it: one plain sentence for everything that is examined, and the exit code tells. The
 * provider is a server of this test with a certificate of its own.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { added, endpointOf } from "../store/endpoints.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { keyText, olderKeyText, webhookSecret } from "../support/service/environment.ts";
import { deadOrigin, startFarEnd, type FarEnd, type Reply } from "../support/fakes/far-end.ts";
import { findingsIn } from "../support/processes/doctor.ts";
import { runOtpd, startOtpd } from "../support/processes/process.ts";
import { secretText, startSiteverify } from "../support/fakes/siteverify.ts";
import { createManualSystem } from "../support/service/system.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
beforeEach(async () => {
  folder = temporaryFolder();
  await makeDatabase(join(folder, "data/otp.db"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const findings = (env: Record<string, string>) => findingsIn(folder, env);

describe("webhook endpoints", () => {
  test("that take nothing are told of, and those that are well or disabled by an operator are not", async () => {
    const path = join(folder, "otp.db");
    const store = await openSqlite({ path, system: createManualSystem(), exclusive: false });
    const failing = { failingSinceMs: 1_767_268_800_000 };
    await added(
      store,
      endpointOf("we_well"),
      endpointOf("we_off", { ...failing, disableMs: 5, why: "operator" }),
      endpointOf("we_away", failing),
      endpointOf("we_gone", { ...failing, disableMs: 5, why: "gone" }),
    );
    await store.close();
    const { bad } = await findings({ OTP_DATABASE_URL: `file:${path}`, OTP_MASTER_KEY: keyText });
    expect(bad).toEqual([
      "Webhook endpoint we_away of tenant default takes nothing since 2026-01-01T12:00:00.000Z, and 0 events wait.",
      "Webhook endpoint we_gone of tenant default is disabled (gone).",
    ]);
  });
});

describe("a development setup", () => {
  test("that runs is healthy, in plain words", async () => {
    const otpd = await startOtpd(folder);
    try {
      expect(await runOtpd(folder, ["doctor"])).toEqual({
        code: 0,
        output: `ok   The configuration in the environment of this shell, which need not be the service's, has no faults.
ok   The database can be written.
ok   The master key is the one the database was written with.
ok   Messages are printed on the console, and sent to nobody.
`,
        errors: "",
      });
    } finally {
      await otpd.end();
    }
  });

  test("that was never started has no database, and is not given one", async () => {
    rmSync(join(folder, "data"), { recursive: true });
    expect((await findings({})).bad).toEqual([
      `There is no database ${folder}/data/otp.db. It is looked for there while OTP_DATABASE_URL is not set. Nothing was made: only otpd serve, restore and copy make a database.`,
    ]);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("without its master key is told how to get one", async () => {
    expect((await findings({})).bad).toEqual([
      "There is no master key: set OTP_MASTER_KEY or OTP_MASTER_KEY_FILE as the service has it, whose environment a command does not get; or, in development, start the service once, which makes one for a new database.",
    ]);
  });
});

describe("the database", () => {
  test("with another master key is told from a healthy one", async () => {
    const env = { OTP_DATABASE_URL: "file:./data/otp.db" };
    const store = await openSqlite({
      path: join(folder, "data/otp.db"),
      system: createManualSystem(),
      exclusive: false,
    });
    await store.registry.admitMasterKeys(createKeyRing([Buffer.from(keyText, "base64url")]).all);
    await store.close();
    expect((await findings({ ...env, OTP_MASTER_KEY: keyText })).bad).toEqual([]);
    expect(await findings({ ...env, OTP_MASTER_KEY: olderKeyText })).toMatchObject({
      bad: ["The master key does not fit: this database was written with another master key."],
      good: expect.arrayContaining(["The database can be written."]) as string[],
    });
  });

  test("that knows no master key yet is not given to the first that is looked at", async () => {
    const env = { OTP_DATABASE_URL: "file:./data/otp.db" };
    expect((await findings({ ...env, OTP_MASTER_KEY: olderKeyText })).bad).toEqual([]);
    expect((await findings({ ...env, OTP_MASTER_KEY: keyText })).bad).toEqual([]);
  });

  test("that is a directory cannot be opened", async () => {
    mkdirSync(join(folder, "otp.db"));
    const { bad } = await findings({ OTP_DATABASE_URL: "file:./otp.db", OTP_MASTER_KEY: keyText });
    expect(bad).toEqual([`The database ${folder}/otp.db cannot be opened: it is a folder.`]);
  });

  test("that is no database cannot be opened", async () => {
    writeFileSync(join(folder, "otp.db"), "a letter to a friend, longer than any header".repeat(100), { mode: 0o600 });
    const { bad } = await findings({ OTP_DATABASE_URL: "file:./otp.db", OTP_MASTER_KEY: keyText });
    expect(bad).toEqual([expect.stringMatching(/^The database \S+ cannot be opened: file is not a database\.$/)]);
  });
});

test("a configuration with faults is told whole, and nothing else is examined", async () => {
  const { code, output, errors } = await runOtpd(folder, ["doctor"], {
    OTP_PROVIDERS: "messagebird",
    OTP_MESSAGEBIRD_ACCESS_KEY: "bk_eu1_secret",
    OTP_TTL_SECONDS: "5",
  });
  expect({ code, output }).toEqual({ code: 1, output: "" });
  expect(errors).toContain(
    "OTP_MESSAGEBIRD_ACCESS_KEY is a key of the new Bird platform: set OTP_PROVIDERS=bird and OTP_BIRD_API_KEY instead.",
  );
  expect(errors).toContain("OTP_MESSAGEBIRD_ORIGINATOR is required by OTP_PROVIDERS=messagebird.");
  expect(errors).toContain("OTP_ALLOWED_COUNTRIES is required with a provider that sends");
  expect(errors).toContain("OTP_TTL_SECONDS must be");
  expect(errors).not.toContain("secret");
});

describe.skipIf(lacks("doctor of MessageBird", "openssl"))("MessageBird", () => {
  let farEnd: FarEnd;
  let folderOfTrust: string;
  let env: Record<string, string>;
  let balance: Reply;
  let report: Reply;
  const rich = { status: 200, body: { payment: "prepaid", type: "euros", amount: 12.5 } };

  /** What is found besides that its API may close, which all are told of. */
  async function found(given: Record<string, string>) {
    const { bad, good } = await findings(given);
    const closing = bad.filter((sentence) => sentence.includes("2026-12-31"));
    expect(closing).toEqual([expect.stringMatching(/unconfirmed.*OTP_PROVIDERS=bird, OTP_BIRD_API_KEY/) as string]);
    return { bad: bad.filter((sentence) => !closing.includes(sentence)), good };
  }

  beforeAll(async () => {
    const certificate = makeCertificate("messagebird");
    folderOfTrust = temporaryFolder();
    const trusted = join(folderOfTrust, "cert.pem");
    writeFileSync(trusted, certificate.cert);
    // Both far ends in one: the provider's API, and the way from outside to this service.
    farEnd = await startFarEnd((response, asked) => {
      const reply = asked.path === "/balance" ? balance : report;
      if (typeof reply === "function") return reply(response, asked);
      response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
      response.end(JSON.stringify(reply.body ?? {}));
    }, certificate);
    env = {
      OTP_MASTER_KEY: keyText,
      OTP_PROVIDERS: "messagebird",
      OTP_MESSAGEBIRD_ACCESS_KEY: "any-key",
      OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
      OTP_MESSAGEBIRD_SIGNING_KEY: "signs",
      OTP_MESSAGEBIRD_BASE_URL: farEnd.url,
      OTP_PUBLIC_URL: farEnd.url,
      OTP_ALLOWED_COUNTRIES: "NL,BE",
      NODE_EXTRA_CA_CERTS: trusted,
    };
  });
  beforeEach(() => {
    balance = rich;
    report = { status: 401 };
    farEnd.asked.splice(0);
  });
  afterAll(async () => {
    await farEnd.stop();
    rmSync(folderOfTrust, { recursive: true });
  });

  test("that takes the key and has a balance is healthy, and nothing was sent", async () => {
    expect(await found(env)).toEqual({
      bad: [],
      good: [
        "The configuration in the environment of this shell, which need not be the service's, has no faults.",
        "The database can be written.",
        "The master key is the one the database was written with.",
        "MessageBird accepts the access key.",
        "The MessageBird balance is 12.5 euros.",
        "The clock agrees with MessageBird's.",
        "The sender suits the countries that are allowed.",
        `${farEnd.url}/webhooks/messagebird reaches this service.`,
      ],
    });
    expect(farEnd.asked.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual([
      "GET /balance",
      "GET /webhooks/messagebird",
    ]);
    expect(farEnd.asked.find(({ path }) => path === "/balance")?.headers.authorization).toBe("AccessKey any-key");
  });

  const notAllowed = { errors: [{ code: 2, description: "Request not allowed", parameter: "access_key" }] };
  test.each<[string, () => void, RegExp[]]>([
    [
      "refuses the key, and is given to reach something else with its reports",
      () => {
        balance = { status: 401, body: notAllowed };
        report = { status: 404 };
      },
      [
        /^MessageBird does not accept OTP_MESSAGEBIRD_ACCESS_KEY\.$/,
        /^https:\S+\/webhooks\/messagebird answers HTTP 404 instead of this service\.$/,
      ],
    ],
    [
      "is out of order, and gets no answer to its reports",
      () => {
        balance = { status: 500, body: {} };
        report = (response) => response.socket?.destroy();
      },
      [
        /^MessageBird answers HTTP 500 when asked for the balance\.$/,
        /^https:\S+\/webhooks\/messagebird cannot be reached: it broke off the connection\.$/,
      ],
    ],
    [
      "has no money of ours, and another time",
      () =>
        (balance = {
          status: 200,
          headers: { date: new Date(Date.now() - 120_000).toUTCString() },
          body: { payment: "prepaid", type: "euros", amount: 0 },
        }),
      [
        /^The MessageBird balance is 0 euros: nothing can be sent\.$/,
        /^The clock is 1\d\d s ahead of MessageBird's: set it by NTP\.$/,
      ],
    ],
  ])("that %s", async (_, change, sentences) => {
    change();
    expect((await found(env)).bad).toEqual(sentences.map((sentence) => expect.stringMatching(sentence) as string));
  });

  test("that cannot be reached, nor vouched for", async () => {
    const dead = { ...env, OTP_MESSAGEBIRD_BASE_URL: (await deadOrigin()).replace("http:", "https:") };
    expect((await found(dead)).bad).toEqual(["MessageBird cannot be reached: nothing listens there."]);
    const { NODE_EXTRA_CA_CERTS: _, ...untrusting } = env;
    const why =
      "its certificate is of an authority that is not known here: NODE_EXTRA_CA_CERTS may name a file with its certificate";
    expect((await found(untrusting)).bad).toEqual([
      `MessageBird cannot be reached: ${why}.`,
      `${farEnd.url}/webhooks/messagebird cannot be reached: ${why}.`,
    ]);
  });

  test("without a way for its reports", async () => {
    const { OTP_PUBLIC_URL: _, ...rest } = env;
    expect((await found(rest)).bad).toEqual([
      "OTP_PUBLIC_URL is not set, so providers are not told where to report; without reports a lost message is not sent again.",
    ]);
  });

  test("without the key that its reports are signed with", async () => {
    const { OTP_MESSAGEBIRD_SIGNING_KEY: _, ...rest } = env;
    expect((await found(rest)).bad).toEqual([
      "OTP_MESSAGEBIRD_SIGNING_KEY is not set, so no delivery report is believed, and a lost message is not sent again.",
    ]);
  });

  test("with a sender of letters where none is delivered, until those countries have a number", async () => {
    const abroad = { ...env, OTP_ALLOWED_COUNTRIES: "NL,US,CA" };
    expect((await found(abroad)).bad).toEqual([
      "A sender of letters is not delivered in US, CA: give those countries a number in OTP_ORIGINATORS.",
    ]);
    const numbered = { ...abroad, OTP_ORIGINATORS: "US=+15551234567,CA=+15551234567" };
    expect((await found(numbered)).bad).toEqual([]);
  });

  test("with a sender of letters and every country allowed", async () => {
    const { bad } = await found({ ...env, OTP_ALLOWED_COUNTRIES: "*" });
    expect(bad).toEqual([
      expect.stringMatching(/^A sender of letters is not delivered in US, CA, .*OTP_ORIGINATORS\.$/),
    ]);
  });
});

test("a webhook without TLS is refused with the configuration, and one on this machine is fine", async () => {
  const env = {
    OTP_MASTER_KEY: keyText,
    OTP_PROVIDERS: "webhook",
    OTP_WEBHOOK_SECRET: webhookSecret,
    OTP_ALLOWED_COUNTRIES: "NL",
  };
  const { good, bad } = await findings({ ...env, OTP_WEBHOOK_URL: "http://127.0.0.1:8090/" });
  expect(bad).toEqual([]);
  expect(good).toContain("The webhook URL is protected by TLS or local.");
  const { errors } = await runOtpd(folder, ["doctor"], { ...env, OTP_WEBHOOK_URL: "http://sms.example.com/" });
  expect(errors).toContain("OTP_WEBHOOK_URL must be an https URL (http only for this machine).");
});

test("a bot check is asked with something made up: reached, not accepted, or not there", async () => {
  const far = await startSiteverify();
  const env = { OTP_MASTER_KEY: keyText, OTP_CHALLENGE_VERIFY_URL: far.url, OTP_CHALLENGE_SECRET: secretText };
  const { good, bad } = await findings(env);
  expect({ bad, last: good.at(-1) }).toEqual({
    bad: [],
    last: "The bot check is reached, and refuses what was made up.",
  });
  expect((await findings({ ...env, OTP_CHALLENGE_SECRET: "another" })).bad).toEqual([
    "The bot check does not accept OTP_CHALLENGE_SECRET.",
  ]);
  far.stop();
  const dead = await deadOrigin();
  expect((await findings({ ...env, OTP_CHALLENGE_VERIFY_URL: `${dead}/siteverify` })).bad).toEqual([
    `The bot check at ${new URL(dead).host} cannot be made: ECONNREFUSED.`,
  ]);
});
