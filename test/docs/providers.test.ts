/**
 * docs/providers.md is true: its files are good ones, its tables say what the code has, and the made-up gateway of its whole
 * example stands behind the entry that is shown.
 */
import { execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readHttpProviders } from "../../src/delivery/providers/http/file.ts";
import { builtInPlaceholders } from "../../src/delivery/providers/http/placeholders.ts";
import { createHttpProvider } from "../../src/delivery/providers/http/provider.ts";
import { presetNames } from "../../src/delivery/providers/http/preset.ts";
import { causes } from "../../src/delivery/providers/http/shape.ts";
import type { Provider } from "../../src/delivery/provider.ts";
import { providerNames } from "../../src/delivery/providers/list.ts";
import { acme, type Loose } from "../support/data/http-providers.ts";
import { startFarEnd, type FarEnd } from "../support/fakes/far-end.ts";
import { lacks } from "../support/machine.ts";
import { cleanEnv, firstKey, startOtpd } from "../support/processes/process.ts";
import { readDocument } from "../support/readers/document.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { patience, sms } from "../delivery/http/setup.ts";

const { text, blocks, table, file: blockOf } = readDocument("docs/providers.md");
const files = blocks.filter((block) => block.language === "json" && block.text.includes('"providers"'));
const schema: Loose = JSON.parse(
  readFileSync(new URL("../../docs/http-providers.schema.json", import.meta.url), "utf8"),
);

test.each(files)("file %#: is good, for the reader and for the schema", ({ text: file }) => {
  expect(readHttpProviders(file, providerNames).faults).toEqual([]);
  expect(new Ajv2020({ allowUnionTypes: true, strict: false }).validate(schema, JSON.parse(file))).toBe(true);
});

test("the first is the one that tests go by", () => {
  expect(JSON.parse(files[0]?.text ?? "")).toEqual({ $schema: "./http-providers.schema.json", ...acme });
});

const named = (head: string) =>
  table(head).flatMap(([names = ""]) => names.split(", ").map((name) => name.replaceAll(/[`{}]/g, "")));

test("the tables name all placeholders, causes and kinds, and no others", () => {
  expect(new Set(named("placeholder"))).toEqual(builtInPlaceholders);
  expect(new Set(named("cause"))).toEqual(new Set(causes));
  const kindsOf = (name: string) =>
    (schema.$defs[name].oneOf as Loose[]).flatMap(({ properties: { kind } }) => kind.enum ?? [kind.const]);
  expect(new Set(named("`auth.kind`"))).toEqual(new Set(kindsOf("auth")));
  expect(new Set(named("`signature.kind`"))).toEqual(new Set(kindsOf("signature")));
});

test("each preset is in the schema, has a part of its own and an example there, and says that it was not tried live", () => {
  expect(new Set(schema.$defs.provider.properties.preset.enum)).toEqual(new Set(presetNames));
  for (const name of presetNames) {
    const part = text.split(/^### /m).find((each) => each.includes(`"preset": "${name}"`));
    expect(part).toContain("Not tried live");
  }
});

describe("Pigeon Post, as its manual is told there", () => {
  let farEnd: FarEnd;
  let pigeon: Provider;
  const type = { "content-type": "application/x-www-form-urlencoded" };
  beforeAll(async () => {
    farEnd = await startFarEnd({ status: 200, headers: type, body: "outcome=in-flight&feather=F123" });
    const example = files[1]?.text.replace("https://api.pigeon.example", farEnd.url) ?? "";
    const [declaration] = readHttpProviders(example, providerNames).declarations;
    if (declaration === undefined) throw new Error("the example is no good");
    const secrets = { secret: "token", reportSecret: "mark" };
    const rest = { publicUrl: "https://otp.example.com", originators: new Map<string, string>(), now: Date.now };
    pigeon = createHttpProvider({ declaration, ...secrets, ...rest });
  });
  afterAll(() => farEnd.stop());

  test("takes a message", async () => {
    expect(await pigeon.send(sms, patience())).toEqual({ kind: "accepted", providerMessageId: "F123" });
    const { path, headers, body } = farEnd.asked[0] ?? {};
    expect({ path, token: headers?.authorization }).toEqual({ path: "/v2/messages", token: "Bearer token" });
    expect(JSON.parse(body ?? "")).toEqual({
      coop: sms.to,
      sender: "Acme",
      message: { words: sms.text, tongue: "nl" },
      note: sms.reference,
      report_to: "https://otp.example.com/webhooks/pigeon",
    });
  });

  test.each([
    ["outcome=grounded&why=no-such-coop", 200, { kind: "refused", cause: "recipient" }],
    ["outcome=grounded&why=hungry", 200, { kind: "refused", cause: "balance" }],
    ["outcome=grounded&why=rain", 200, { kind: "ambiguous" }],
    ["", 401, { kind: "refused", cause: "credentials" }],
    ["", 429, { kind: "throttled", retryAfterMs: 10_000 }],
  ])("answers %j with %i, and we know what it means", async (body, status, outcome) => {
    farEnd.reply = { status, headers: type, body };
    expect(await pigeon.send(sms, patience())).toMatchObject(outcome);
  });

  test("reports what landed, signed", async () => {
    const body = new URLSearchParams({ note: sms.reference, landed: "yes", feather: "F123" }).toString();
    const time = `${Math.floor(Date.now() / 1_000)}`;
    const report = (mark: string) =>
      pigeon.readReport?.({
        method: "POST",
        target: "/webhooks/pigeon",
        headers: { ...type, "x-pigeon-time": time, "x-pigeon-mark": mark },
        body: Buffer.from(body),
      });
    const mark = createHmac("sha256", "mark").update(`${time}.${body}`).digest("hex");
    expect(await report(`v1=${mark}`)).toMatchObject({
      reports: [{ reference: sms.reference, delivery: "DELIVERED" }],
    });
    expect(await report(mark)).toEqual({ kind: "forged", cause: "signature" });
  });
});

test.skipIf(lacks("reports by hand", "curl", "openssl"))(
  "reports can be tried by hand, before a gateway reaches us",
  async ({ onTestFinished }) => {
    const folder = temporaryFolder();
    const program = blockOf("gateway.mjs").replace(
      '.listen(8090, "127.0.0.1")',
      ".listen(0, function () { console.log(this.address().port) })",
    );
    writeFileSync(join(folder, "gateway.mjs"), program);
    const gateway = spawn(process.execPath, ["gateway.mjs"], { cwd: folder, env: cleanEnv() });
    const nextLine = async () => String((await once(gateway.stdout, "data"))[0]).trim();
    const port = await nextLine();
    const declared = (files[0]?.text ?? "").replace("https://gw.example/send", `http://127.0.0.1:${port}/`);
    writeFileSync(join(folder, "providers.json"), declared);
    const secret = { OTP_HTTP_ACME_REPORT_KEY: "r3port" };
    const otpd = await startOtpd(folder, {
      ...secret,
      // It is told what came of the message, however slow the machine is.
      OTP_SEND_WAIT_MS: "10000",
      OTP_HTTP_PROVIDERS_FILE: join(folder, "providers.json"),
      OTP_PROVIDERS: "acme",
      OTP_HTTP_ACME_KEY: "t0ps3cret",
      OTP_ALLOWED_COUNTRIES: "NL",
    });
    onTestFinished(async () => {
      gateway.kill();
      await otpd.end();
      rmSync(folder, { recursive: true });
    });
    const headers = { authorization: `Bearer ${await firstKey(otpd)}`, "content-type": "application/json" };
    const asked = nextLine();
    const sent = await fetch(`${otpd.url}/v1/otp/send`, { method: "POST", headers, body: '{"phone":"+31612345678"}' });
    const { request_id } = (await sent.json()) as { request_id: string };
    const deliveryNow = async () =>
      ((await (await fetch(`${otpd.url}/v1/otp/${request_id}`, { headers })).json()) as { delivery: string }).delivery;
    expect(await deliveryNow()).toBe("DELIVERY_ACCEPTED");

    const script = blockOf("report.sh")
      .replace("http://127.0.0.1:8080", otpd.url)
      .replace("REFERENCE", await asked);
    const report = async (env: Record<string, string>) =>
      (await promisify(execFile)("bash", ["-c", script], { env: cleanEnv(env) })).stdout;
    expect(await report({ OTP_HTTP_ACME_REPORT_KEY: "another" })).toContain("API_KEY_INVALID");
    expect(await deliveryNow()).toBe("DELIVERY_ACCEPTED");
    expect(await report(secret)).toBe("{}");
    expect(await deliveryNow()).toBe("DELIVERY_DELIVERED");
  },
);
