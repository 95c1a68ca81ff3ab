/**
 * The README is true: its commands are run as they stand, its answers have the shape that comes back, and its tables say
 * what the code says.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaults, secretNames } from "../src/config/variables.ts";
import { codeOf, reasons, type Reason } from "../src/otp/reason.ts";
import { httpStatus } from "../src/server/rpc/errors.ts";
import { readDocument } from "./support/readers/document.ts";
import { cleanEnv, launcher, startOtpd, type Otpd } from "./support/processes/process.ts";

const root = join(import.meta.dirname, "..");
const { text: readme, blocks, table } = readDocument("README.md");

let folder: string;
let otpd: Otpd;
let key: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "otpd-readme-"));
  symlinkSync(launcher, join(folder, "otpd"));
  // Everything in the README is for one number; an answer tells what came of the message, however slow the machine is.
  otpd = await startOtpd(folder, { OTP_PHONE_LIMITS: "1000@1s", OTP_SEND_WAIT_MS: "10000" });
  [key = ""] = await otpd.waitFor(/otp_live_\w{10}_\w{38}/);
});
afterAll(async () => {
  await otpd.end();
  rmSync(folder, { recursive: true });
});

type Json = Record<string, unknown>;

/** The commands of the README that hold `text`, each with the answer shown right below it, if one is. */
function commandsWith(text: string): { command: string; shown: Json | undefined }[] {
  return blocks.flatMap((block, i) => {
    if (block.language !== "sh" || !block.text.includes(text)) return [];
    const below = blocks[i + 1];
    const shown = below?.language === "json" ? (JSON.parse(below.text) as Json) : undefined;
    return [{ command: block.text, shown }];
  });
}

/** Runs a command of the README from the repository, with this server for the one it names. */
async function run(command: string, values: Record<string, string> = {}): Promise<Json> {
  const filled = Object.entries({ "http://127.0.0.1:8080": otpd.url, ...values }).reduce(
    (line, [from, to]) => line.replaceAll(from, to),
    command,
  );
  // As an installation has the command.
  const path = `${folder}${delimiter}${process.env["PATH"]}`;
  const env = cleanEnv({ API_KEY: key, OTP_DATABASE_URL: `file:${folder}/data/otp.db`, PATH: path });
  const { stdout } = await promisify(execFile)("bash", ["-c", filled], { cwd: root, env });
  return JSON.parse(stdout) as Json;
}

/** Runs a command that sends, and reads the code out of the one box that it adds to the output. */
async function send(command: string): Promise<{ sent: Json; code: string }> {
  const before = [...otpd.output().matchAll(/│ \d{6} /g)].length;
  const sent = await run(command);
  const [, code = ""] = await otpd.waitFor(new RegExp(`(?:[^]*?│ (\\d{6}) ){${before + 1}}`));
  return { sent, code };
}

function wrongFor(code: string): string {
  return code === "000000" ? "000001" : "000000";
}

function only<T>(list: T[]): T {
  expect(list).toHaveLength(1);
  return list[0] as T;
}

/** The names of fields, and the types of their values. */
function shapeOf(json: Json | undefined): [string, string][] {
  return Object.entries(json ?? {}).map(([name, value]) => [name, typeof value]);
}

describe("the README's commands", () => {
  const sending = () =>
    only(commandsWith("/v1/otp/send").filter(({ command }) => !command.includes("Idempotency-Key")));
  const verifying = () => only(commandsWith("/v1/otp/verify"));

  test("send and verify by curl, and the answers are those shown", async () => {
    const { sent, code } = await send(sending().command);
    const { expire_time: _, next_resend_time: __, request_id, expires_in_seconds, resend_in_seconds, ...rest } = sent;
    const { shown } = sending();
    expect(shapeOf(sent)).toEqual(shapeOf(shown));
    expect(shown).toMatchObject(rest);
    // What is left is counted when the answer is made.
    expect(expires_in_seconds).toBeLessThanOrEqual(Number(shown?.["expires_in_seconds"]));
    expect(resend_in_seconds).toBeLessThanOrEqual(Number(shown?.["resend_in_seconds"]));

    const verified = await run(verifying().command, { REQUEST_ID: String(request_id), CODE: code });
    expect(shapeOf(verified)).toEqual(shapeOf(verifying().shown));
    expect(verified).toMatchObject({ request_id, state: "STATE_VERIFIED", phone: "+14155552671" });
  });

  test("whoever sends again and again is told of the longer code, the refusal and the cure", () => {
    const [, minute = ""] = /## The first minute([^]*?)\n## /.exec(readme) ?? [];
    expect(minute).toMatch(/8 digits.*PHONE_RATE_LIMITED.*`otpd phones reset \+14155552671`/);
    expect(readme).toMatch(/\| [^|\n]*PHONE_RATE_LIMITED[^\n]*`otpd phones reset`/);
  });

  test("a wrong code is refused as shown", async () => {
    const { sent, code } = await send(sending().command);
    const wrong = await run(verifying().command, { REQUEST_ID: String(sent["request_id"]), CODE: wrongFor(code) });
    const shown = only(blocks.filter(({ language, text }) => language === "json" && text.includes("CODE_MISMATCH")));
    expect(wrong).toMatchObject(JSON.parse(shown.text) as Json);
  });

  test("send and verify by gRPC, and the answers are those shown", async () => {
    const { sent, code } = await send(only(commandsWith("OtpService/SendOtp")).command);
    expect(sent).toMatchObject({ state: "STATE_PENDING", delivery: "DELIVERY_ACCEPTED", codeLength: 6 });
    const verify = only(commandsWith("OtpService/VerifyOtp"));
    const verified = await run(verify.command, { REQUEST_ID: String(sent["requestId"]), CODE: code });
    expect(shapeOf(verified)).toEqual(shapeOf(verify.shown));
    expect(verified).toMatchObject({ requestId: sent["requestId"], state: "STATE_VERIFIED", phone: "+14155552671" });
  });

  test("a send with an Idempotency-Key answers the same twice, and texts once", async () => {
    const { command } = only(commandsWith("Idempotency-Key"));
    const [make = "", ...rest] = command.split("\n");
    const { stdout: made } = await promisify(execFile)("bash", ["-c", `${make}; echo "$IDEMPOTENCY_KEY"`]);
    expect(made).toMatch(/^[0-9a-f-]{36}\n$/);
    const call = [`IDEMPOTENCY_KEY=${made.trim()}`, ...rest].join("\n");
    const { sent } = await send(call);
    expect(await run(call)).toEqual(sent);
    const boxes = () => otpd.output().match(/┌/g)?.length ?? 0;
    const before = boxes();
    // A box of the repeat would stand before that of a later send.
    await send(sending().command);
    expect(boxes()).toBe(before + 1);
  });

  test("the operator's commands work beside the server", async () => {
    const lines = only(commandsWith("otpd keys create")).command.trimEnd().split("\n");
    const [create = "", list = "", migrate = "", prune = "", phones = "", doctor = "", _, ...more] = lines;
    expect(more).toEqual([]);
    const made = await run(create);
    expect(made).toMatchObject({ name: "shop", scopes: ["send", "verify"] });
    const listed = await run(`printf '{"keys":'; ${list} --json; printf '}'`);
    expect(listed["keys"]).toContainEqual(expect.objectContaining({ id: made["id"], state: "active" }));
    expect(await run(`${migrate} >/dev/null && echo '{"done":true}'`)).toEqual({ done: true });
    expect(Object.keys(await run(prune))).toEqual(["expired", "deleted"]);
    const { known } = await run(`printf '{"known":'; ${phones} --json; printf '}'`);
    expect(known).toMatchObject([{ tenant: "default", country: "NL", requests: [] }]);
    const { all } = await run(`printf '{"all":'; ${doctor} --json; printf '}'`);
    expect((all as { ok: boolean }[]).filter(({ ok }) => !ok)).toEqual([]);
  });

  test("the operator's command makes a tenant", async () => {
    const [line = ""] = /^otpd tenants create .*$/m.exec(readme) ?? [];
    expect(await run(`${line} >/dev/null && otpd tenants show acme --json`)).toMatchObject({
      name: "acme",
      settings: { brand: { value: "Acme", from: "tenant" }, countries: { value: "NL,BE", from: "tenant" } },
    });
  });

  test("the client's code tells a right code from a wrong one", async () => {
    const { text } = only(blocks.filter(({ language }) => language === "js"));
    const source = text.replaceAll("http://127.0.0.1:8080", otpd.url).replaceAll("process.env.API_KEY", `"${key}"`);
    const { checkCode } = (await import(`data:text/javascript,${encodeURIComponent(source)}`)) as {
      checkCode: (requestId: string, code: string) => Promise<Json>;
    };
    const { sent, code } = await send(sending().command);
    const check = (typed: string) => checkCode(String(sent["request_id"]), typed);
    expect(await check("12345")).toEqual({ askAgain: true });
    expect(await check(wrongFor(code))).toEqual({ askAgain: true });
    expect(await check(code)).toEqual({ proven: "+14155552671" });
    expect(await check(code)).toEqual({ askAgain: false, reason: "OTP_ALREADY_VERIFIED" });
  });

  test("there is no command that no test knows", () => {
    const known = new Set([
      "npm ci && npm start\n",
      "export API_KEY=otp_live_...\n",
      ...["/v1/otp/send", "/v1/otp/verify", "OtpService/", "otpd keys create"].flatMap((text) =>
        commandsWith(text).map(({ command }) => command),
      ),
    ]);
    const commands = blocks.filter(({ language }) => language === "sh").map(({ text }) => text);
    expect(commands.filter((command) => !known.has(command))).toEqual([]);
  });
});

describe("the README's tables", () => {
  const rows = [...table("variable"), ...readDocument("docs/providers.md").table("variable")].map(
    ([name = "", value = ""]) => ({ name, value }),
  );

  test("name every variable of the configuration and no other", () => {
    const named = rows.map(({ name }) => /`(OTP_\w+)`/.exec(name)?.[1]);
    expect(new Set(named)).toEqual(new Set(Object.keys(defaults())));
    expect(named).toHaveLength(Object.keys(defaults()).length);
  });

  test("give every default as the code has it", () => {
    const given = rows.map(({ name, value }) => [/`(OTP_\w+)`/.exec(name)?.[1], /^`(.+)`$/.exec(value)?.[1]]);
    expect(Object.fromEntries(given)).toEqual(defaults());
  });

  test("mark every secret", () => {
    const marked = rows.filter(({ name }) => name.endsWith("*")).map(({ name }) => /`(OTP_\w+)`/.exec(name)?.[1]);
    expect(new Set(marked)).toEqual(new Set(secretNames));
  });

  test("name every reason with its gRPC code and its HTTP status", () => {
    const said = table("reason").flatMap(([names = "", code, http]) =>
      names.split(", ").map((reason) => [reason, { code, http: Number(http) }] as const),
    );
    const meant = (Object.keys(reasons) as Reason[]).map(
      (reason) => [reason, { code: codeOf(reason), http: httpStatus({ reason }) }] as const,
    );
    expect(said).toHaveLength(meant.length);
    expect(Object.fromEntries(said)).toEqual(Object.fromEntries(meant));
  });

  test("the whole has at most 250 lines", () => expect(readme.split("\n").length - 1).toBeLessThanOrEqual(250));
});

test("everything that the README links to is there", () => {
  const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path = ""]) => path);
  for (const link of links) expect(() => readFileSync(join(root, link))).not.toThrow();
  expect(links.length).toBeGreaterThan(1);
});
