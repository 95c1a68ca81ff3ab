/**
 * What must not be found: the real command at its most talkative, through every flow and failure, and then a search of
 * its logs, its database, its metrics, its traces and its answers for codes, the key's secret and whole numbers, in every
 * spelling they have.
 */
import { readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseEvent } from "../support/readers/events.ts";
import { startFarEnd, type FarEnd } from "../support/fakes/far-end.ts";
import { wrongCode } from "../support/data/phones.ts";
import { runOtpd, startOtpd, type Otpd } from "../support/processes/process.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder = "";
let otpd: Otpd;
const secrets = { codes: [] as string[], phones: [] as string[], key: "", endpoint: "" };
/** The tenant's own system, which is told of everything. */
let consumer: FarEnd;
/** Answers that may hold the number they are about, by design, and all others. */
const answers = { withPhone: [] as string[], others: [] as string[] };
let files = "";
let metrics = "";
let spans = "";

/** Ten digits, so that none turns up by chance; the numbers have ten behind their country's code. */
const env = { OTP_LOG_LEVEL: "trace", OTP_CODE_LENGTH: "10", OTP_CODE_LENGTH_MAX: "10", OTP_PHONE_LIMITS: "9@1s" };
const tracer = new URL("../support/processes/trace-to-file.ts", import.meta.url).href;

beforeAll(async () => {
  folder = temporaryFolder();
  const traceFile = join(folder, "spans");
  otpd = await startOtpd(folder, { ...env, NODE_OPTIONS: `--import ${tracer}`, TRACE_FILE: traceFile });
  const [, key = ""] = await otpd.waitFor(/(otp_live_\w+)/);
  secrets.key = key;
  const allDelivered = Promise.withResolvers<void>();
  consumer = await startFarEnd((response) => {
    response.writeHead(204).end();
    const ended = consumer.asked.filter(({ body }) => /"type":"verification\.verified"/.test(body));
    if (ended.length === 2 * surfaces.length) allDelivered.resolve();
  });
  const added = await runOtpd(folder, ["webhooks", "add", consumer.url, "--json"], env);
  secrets.endpoint = (JSON.parse(added.output) as { secret: string }).secret.slice("whsec_".length);
  for (const [at, surface] of surfaces.entries()) {
    const phone = `+49151234567${10 + at}`;
    secrets.phones.push(phone);
    const call = async (rpc: Rpc, message: Message, idempotencyKey = "", apiKey: string | null = key) => {
      const headers: Record<string, string> = idempotencyKey === "" ? {} : { "idempotency-key": idempotencyKey };
      const outcome = await surface.call(otpd.url, rpc, message, { key: apiKey, headers });
      const shown = JSON.stringify([outcome, [...outcome.headers]]);
      const mayHoldPhone = (rpc === "VerifyOtp" || rpc === "GetOtp") && outcome.value !== undefined;
      answers[mayHoldPhone ? "withPhone" : "others"].push(shown);
      return String(outcome.value?.["request_id"]);
    };
    const send = async (more: Message = {}, idempotencyKey = "") => {
      const id = await call("SendOtp", { phone, locale: "en", ...more }, idempotencyKey);
      const [, code = ""] = await otpd.waitFor(
        new RegExp(`(?:│ \\d{10} is your[^]*){${secrets.codes.length}}│ (\\d{10}) is your`),
      );
      secrets.codes.push(code);
      return { id, code };
    };
    const happy = await send({ purpose: "login", bind: { payee: "Ada" } }, `send-${at}`);
    await call("SendOtp", { phone, locale: "en", purpose: "login", bind: { payee: "Ada" } }, `send-${at}`);
    await call("GetOtp", { request_id: happy.id });
    const verify = { request_id: happy.id, purpose: "login", bind: { payee: "Ada" } };
    await call("VerifyOtp", { ...verify, code: wrongCode(happy.code) }, `wrong-${at}`);
    await call("VerifyOtp", { ...verify, code: happy.code, purpose: "other" });
    await call("VerifyOtp", { ...verify, code: happy.code }, `right-${at}`);
    await call("VerifyOtp", { ...verify, code: happy.code }, `right-${at}`);
    await call("VerifyOtp", { ...verify, code: happy.code });
    await call("GetOtp", { request_id: happy.id });
    const sad = await send();
    await call("VerifyOtp", { request_id: sad.id, code: `${sad.code}x` });
    await call("VerifyOtp", { request_id: sad.id, code: `${sad.code}\u0000` });
    await call("VerifyOtp", { request_id: `${sad.id}${sad.code}`.slice(0, 22), code: sad.code });
    await call("ResendOtp", { request_id: sad.id });
    await call("CancelOtp", { request_id: sad.id }, `cancel-${at}`);
    await call("VerifyOtp", { request_id: sad.id, code: sad.code });
    const pending = await send();
    await call("VerifyOtp", { request_id: pending.id, code: pending.code }, "", null);
    await call("VerifyOtp", { request_id: pending.id, code: pending.code }, "", `${key.slice(0, -1)}_`);
    await call("SendOtp", { phone: `${phone}0000` });
    await call("SendOtp", { phone: `tel:${phone}` });
    await call("SendOtp", { phone, channel: phone });
    await call("SendOtp", { phone, locale: `${phone}!` });
    await call("SendOtp", { phone, purpose: `\n${phone}` });
    // A caller who puts secrets where they do not belong is not repeated either.
    const [code] = [pending.code];
    for (const [path, body] of [
      ["/v1/otp/verify", `{"request_id":"${pending.id}","code":${code}}`],
      ["/v1/otp/verify", `{"request_id":"${pending.id}","${code}":"${phone}"}`],
      ["/v1/otp/verify", `{"request_id":"${pending.id}","code":"${code}`],
      [`/v1/otp/verify/${code}?phone=${encodeURIComponent(phone)}&key=${key}`, "{}"],
      ["/otp.v1.OtpService/VerifyOtp", `{"request_id":"${pending.id}","code":["${code}","${phone}"]}`],
    ] as const) {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const answer = await overHttp1(otpd.url, { path, headers, body });
      answers.others.push(answer.text, JSON.stringify([...answer.headers]));
    }
    const path = `/v1/otp/${encodeURIComponent(phone)}`;
    const gone = await overHttp1(otpd.url, { method: "GET", path, headers: { authorization: `Bearer ${key}` } });
    answers.others.push(gone.text);
  }
  await allDelivered.promise;
  // Read while it runs, so that the write-ahead log is there, and once more when all is put away.
  const read = () =>
    readdirSync(join(folder, "data"))
      .filter((name) => name !== "master.key")
      .map((name) => readFileSync(join(folder, "data", name), "latin1"))
      .join("\n");
  files = read();
  metrics = await (await fetch(`${otpd.url}/metrics`)).text();
  await otpd.end();
  spans = readFileSync(traceFile, "utf8");
  files += read();
});
afterAll(async () => {
  await consumer.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The spellings that a text may hide in. */
function spellings(text: string): string[] {
  const bytes = Buffer.from(text);
  // Base64 of a text depends on where in its neighbourhood it begins; the outermost characters are its neighbours'.
  const base64 = [0, 1, 2].map((pad) => {
    const encoded = Buffer.concat([Buffer.alloc(pad), bytes, Buffer.alloc(3)]).toString("base64");
    return encoded.slice(Math.ceil((pad * 4) / 3), Math.floor(((pad + bytes.length) * 8) / 6));
  });
  return [
    text,
    encodeURIComponent(text),
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
    Buffer.from(text, "utf16le").toString("latin1"),
    [...text].toReversed().join(""),
    ...base64,
    ...base64.map((encoded) => encoded.replaceAll("+", "-").replaceAll("/", "_")),
  ];
}

function found(where: string, texts: readonly string[]): string[] {
  return texts.filter((text) => spellings(text).some((spelling) => where.includes(spelling)));
}

const secretOf = (key: string) => key.slice("otp_live_".length + 11);
const national = (phones: readonly string[]) => phones.map((phone) => phone.slice(3));

test("the flows have run: there is something to find", () => {
  expect([secrets.codes.length, new Set(secrets.codes).size]).toEqual([15, 15]);
  expect(secretOf(secrets.key)).toMatch(/^[0-9A-Za-z]{38}$/);
  expect(answers.others.length).toBeGreaterThanOrEqual(150);
  const types = new Set(consumer.asked.map(({ body }) => parseEvent(body).type.replace("verification.", "")));
  expect([...types].toSorted()).toEqual(["accepted", "created", "fraud.limited", "verified"]);
  expect(files.length).toBeGreaterThan(100_000);
  expect(otpd.errors().split("\n").length).toBeGreaterThan(100);
  expect(metrics).toContain('otp_sends_total{country="DE",kind="first",channel="sms"} 15');
  const named = spans
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { name: string }).name);
  for (const name of ["otp.v1.OtpService/SendOtp", "store openVerification", "provider console"]) {
    expect(named.filter((each) => each === name).length).toBeGreaterThanOrEqual(15);
  }
  const reasons = answers.others.join("").match(/"reason":"([A-Z_]+)"/g);
  expect(new Set(reasons).size).toBeGreaterThan(8);
});

test("the search finds what is there", () => {
  expect(found(otpd.output(), secrets.codes)).toEqual(secrets.codes);
  expect(found(answers.withPhone.join("\n"), national(secrets.phones))).toEqual(national(secrets.phones));
  for (const before of ["", "x", "xy"]) {
    const hidden = Buffer.from(`${before}+4915123456710 and more`).toString("base64");
    expect(found(hidden, ["+4915123456710"])).toHaveLength(1);
  }
  for (const hidden of spellings("+4915123456710")) expect(found(`x${hidden}y`, ["+4915123456710"])).toHaveLength(1);
});

describe("nothing is found", () => {
  const places: Record<string, () => string> = {
    "on standard error": () => otpd.errors(),
    "in the database and its log": () => files,
    "in the metrics": () => metrics,
    "in a trace": () => spans,
    "in any answer": () => [...answers.others, ...answers.withPhone].join("\n"),
    "in any event": () => JSON.stringify(consumer.asked),
  };
  test.each(Object.keys(places))("of a code or the key's secret %s", (place) => {
    const where = places[place]?.() ?? "";
    expect(where.length).toBeGreaterThan(1_000);
    expect(found(where, [...secrets.codes, secretOf(secrets.key), secretOf(secrets.key).slice(0, 32)])).toEqual([]);
  });

  test.each<[string, () => string]>([
    ["on standard output", () => otpd.output()],
    ["on standard error", () => otpd.errors()],
    ["in the database and its log", () => files],
    ["in the metrics", () => metrics],
    ["in a trace", () => spans],
    ["in an answer that is not about it", () => answers.others.join("\n")],
    ["in any event", () => JSON.stringify(consumer.asked)],
  ])("of a whole number %s", (_, where) => {
    expect(found(where(), [...secrets.phones, ...national(secrets.phones)])).toEqual([]);
  });

  test("of the endpoint's secret, where anybody may look", () => {
    const bytes = Buffer.from(secrets.endpoint, "base64");
    expect(bytes).toHaveLength(32);
    const everything = `${otpd.output()}${otpd.errors()}${files}${JSON.stringify(consumer.asked)}`;
    for (const form of [
      secrets.endpoint,
      bytes.toString("latin1"),
      bytes.toString("hex"),
      bytes.toString("base64url"),
    ]) {
      expect(everything.includes(form)).toBe(false);
    }
  });

  test("of the master key, beyond its own file", () => {
    const master = readFileSync(join(folder, "data", "master.key"), "utf8").trim();
    const bytes = Buffer.from(master, "base64url");
    const everything = `${otpd.output()}${otpd.errors()}${files}${metrics}${spans}${answers.others.join("")}${answers.withPhone.join("")}`;
    for (const form of [master, bytes.toString("latin1"), bytes.toString("hex"), bytes.toString("base64")]) {
      expect(everything.includes(form)).toBe(false);
    }
  });
});

test("the key is shown once, and codes on standard output only in their boxes", () => {
  const output = otpd.output();
  const keyLines = output.split("\n").filter((line) => line.includes(secretOf(secrets.key)));
  expect(keyLines.filter((line) => !line.trim().startsWith("curl"))).toHaveLength(1);
  const codeLines = output.split("\n").filter((line) => found(line, secrets.codes).length > 0);
  expect(codeLines.every((line) => /^│ \d{10} is your /.test(line))).toBe(true);
});
