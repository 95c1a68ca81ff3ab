/**
 * What a newcomer meets: an empty folder, no configuration but a free port, and the lines that the banner offers to paste.
 */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startService } from "../src/main.ts";
import { makeDatabase } from "./support/databases/empty-database.ts";
import { freePort } from "./support/network/ports.ts";
import { startOtpd, runOtpd, type Otpd } from "./support/processes/process.ts";
import { createManualSystem } from "./support/service/system.ts";
import { configOf, createTestTelemetry } from "./support/service/world.ts";

const masterKey = Buffer.alloc(32, 9).toString("base64url");
const keyInBanner = /^Your API key, shown this once:\n\n {2}(otp_live_\w{10}_\w{38})$/m;
const publishableInBanner =
  /^A publishable key for a web page on http:\/\/localhost:5173, which may also send, shown this once:\n\n {2}(otp_pub_\w{10}_\w{38})$/m;
const box =
  /^┌─ SMS to \+14•{7}71 ─+┐\n│ (\d{6}) is your otpd verification code\. It expires in \d+ minutes?\. Never share it\. │\n└─+┘$/m;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "otpd-first-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function emptyFolder(): string {
  return mkdtempSync(join(folder, "empty-"));
}

/** Pastes a line into bash, and reads the JSON it prints. */
async function paste(line: string): Promise<Record<string, unknown>> {
  const { stdout } = await promisify(execFile)("bash", ["-c", line]);
  return JSON.parse(stdout) as Record<string, unknown>;
}

/** The lines of a banner that begin with curl: one to send, one to verify. */
function curlLines(banner: string): [send: string, verify: string] {
  const lines = banner.split("\n").filter((line) => line.startsWith("  curl "));
  expect(lines).toHaveLength(2);
  return [lines[0] ?? "", lines[1] ?? ""];
}

describe("the first start in an empty folder", () => {
  let otpd: Otpd;
  let place: string;
  let requestId: string;
  let code: string;
  beforeAll(async () => {
    place = emptyFolder();
    // An answer tells what came of the message, however slow the machine is.
    otpd = await startOtpd(place, { OTP_SEND_WAIT_MS: "10000" });
  });
  afterAll(() => otpd.end());

  test("makes data/ for its owner alone, with the master key beside the database", () => {
    const data = join(place, "data");
    expect(readdirSync(place)).toEqual(["data"]);
    expect(statSync(data).mode & 0o777).toBe(0o700);
    const files = readdirSync(data);
    expect(files).toEqual(expect.arrayContaining(["master.key", "otp.db", "otp.db.lock"]));
    for (const file of files) expect([file, statSync(join(data, file)).mode & 0o777]).toEqual([file, 0o600]);
    expect(Buffer.from(readFileSync(join(data, "master.key"), "utf8").trim(), "base64url")).toHaveLength(32);
  });

  test("prints a banner with the address, the key and the kind of setup", () => {
    const banner = otpd.output();
    expect(banner).toMatch(/^\notpd listens on http:\/\/127\.0\.0\.1:\d+\n/);
    expect(banner).toContain("This is the development setup");
    expect(banner).toMatch(keyInBanner);
    expect(banner).toMatch(/\n\nOr try it in a browser: http:\/\/127\.0\.0\.1:\d+\/demo\?token=[\w-]{24}\n\n/);
  });

  test("the banner's publishable key serves a page on http://localhost:5173, and no other", async () => {
    const [, key = ""] = otpd.output().match(publishableInBanner) ?? [];
    const send = async (origin: string) => {
      const answer = await fetch(`${otpd.url}/v1/otp/send`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", origin },
        body: '{"phone":"+14155552672"}',
      });
      return [answer.status, answer.headers.get("access-control-allow-origin")];
    };
    expect(await send("http://localhost:5173")).toEqual([200, "http://localhost:5173"]);
    expect(await send("http://localhost:5174")).toEqual([403, null]);
  });

  test("the banner's line for send sends, as it stands", async () => {
    const [send] = curlLines(otpd.output());
    const sent = await paste(send);
    expect(sent).toMatchObject({ state: "STATE_PENDING", delivery: "DELIVERY_ACCEPTED", code_length: 6 });
    requestId = String(sent["request_id"]);
    [, code = ""] = await otpd.waitFor(box);
  });

  test("the box shows the message verbatim on one line, as wide as the box", () => {
    const [shown = ""] = otpd.output().match(box) ?? [];
    const widths = shown.split("\n").map((line) => [...line].length);
    expect(new Set(widths).size).toBe(1);
    expect(shown).toContain(`│ ${code} is your otpd verification code. It expires in 10 minutes. Never share it. │`);
  });

  test("pending requests outlive a restart, and the second banner shows no key", async () => {
    const [, key = ""] = otpd.output().match(keyInBanner) ?? [];
    const old = otpd;
    expect(await old.end()).toBe(0);
    otpd = await startOtpd(place);
    const banner = otpd.output();
    expect(banner).not.toContain("otp_live_" + key.slice("otp_live_".length));
    expect(banner).not.toMatch(/otp_(live|pub)_\w/);
    expect(banner).toContain("Your API key was shown at the first start");

    const [, verify] = curlLines(banner);
    const line = verify.replace("REQUEST_ID", requestId).replace("CODE", code);
    expect(await paste(`API_KEY=${key}; ${line}`)).toMatchObject({
      request_id: requestId,
      state: "STATE_VERIFIED",
      phone: "+14155552671",
    });
  });

  test("the first banner's line for verify verifies, with the request_id and the code put in", async () => {
    const elsewhere = await startOtpd(emptyFolder());
    try {
      const [send, verify] = curlLines(elsewhere.output());
      const sent = await paste(send);
      const [, typed = ""] = await elsewhere.waitFor(box);
      const line = verify.replace("REQUEST_ID", String(sent["request_id"])).replace("CODE", typed);
      expect(await paste(line)).toMatchObject({ state: "STATE_VERIFIED", phone: "+14155552671" });
    } finally {
      await elsewhere.end();
    }
  });

  test("banner and boxes are all of standard output, logs are all of standard error", async () => {
    await otpd.end();
    expect(otpd.output()).not.toContain('{"level"');
    const lines = otpd.errors().trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ service: "otpd", time: expect.anything() });
  });

  test("nothing has an escape code in it", () => {
    expect(otpd.output() + otpd.errors()).not.toContain("\u001b");
  });
});

test("who sends to one number again and again is told why its code is longer, why there is none, and the cure", async () => {
  const place = emptyFolder();
  const otpd = await startOtpd(place);
  const [send] = curlLines(otpd.output());
  const digits = async () => (await paste(send))["code_length"];
  for (let i = 0; i < 4; i += 1) expect(await digits()).toBe(6);
  expect(otpd.output()).not.toContain("phones reset");
  expect(await digits()).toBe(8);
  const cure = String.raw`otpd phones reset \+14•{7}71`;
  const [longer = ""] = await otpd.waitFor(
    new RegExp(
      `┌─ SMS to .*\n│ \\d{8} is .*│\n└─ longer: many codes, to this number or to others, are not verified yet or were typed wrong ─+┘\n`,
    ),
  );
  expect(
    new Set(
      longer
        .trim()
        .split("\n")
        .map((line) => line.length),
    ).size,
  ).toBe(1);
  expect(await paste(send)).toMatchObject({ reason: "PHONE_RATE_LIMITED" });
  await otpd.waitFor(
    new RegExp(`^No SMS to \\+14•{7}71: PHONE_RATE_LIMITED. For a fresh start, with the whole number: ${cure}$`, "m"),
  );
  const [, ...readme] = readFileSync(join(import.meta.dirname, "../README.md"), "utf8").match(
    /otpd (phones reset \+14155552671)/,
  ) ?? [""];
  expect((await runOtpd(place, String(readme[0]).split(" "))).code).toBe(0);
  // The five that are open still count for the length.
  expect(await digits()).toBe(8);
  await otpd.end();
  expect(otpd.output() + otpd.errors()).not.toContain("4155552671 ");
});

describe("the banner", () => {
  test("comes once the port is ours, and before the start is over", async () => {
    const port = await freePort();
    const place = emptyFolder();
    const printed: { text: string; accepting: boolean }[] = [];
    const service = await startService(
      configOf({ OTP_PORT: `${port}`, OTP_ADMIN_PORT: "0", OTP_DATABASE_URL: `file:${join(place, "otp.db")}` }),
      {
        system: createManualSystem(),
        telemetry: createTestTelemetry([]),
        print: (text) => void printed.push({ text, accepting: accepts(port) }),
      },
    );
    expect(accepts(port)).toBe(true);
    await service.stop();
    const last =
      /REQUEST_ID.*CODE.*\n\nOr try.*\n\nSee it as an operator.*\n\n  http:\/\/127\.0\.0\.1:\d+\/console#token=[\w-]{43}\n\n$/;
    expect(printed).toEqual([{ text: expect.stringMatching(last) as string, accepting: true }]);
  });

  test("has a link to the console that signs in once", async () => {
    const otpd = await startOtpd(emptyFolder(), { OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" });
    const [, origin = "", token] = /(http:\S+)\/console#token=(\S+)/.exec(otpd.output()) ?? [];
    const spend = async () => {
      const post = { method: "POST", headers: { origin, "content-type": "application/json" } };
      return (await fetch(`${origin}/console/session`, { ...post, body: JSON.stringify({ token }) })).status;
    };
    expect([await spend(), await spend()]).toEqual([200, 401]);
    await otpd.end();
    expect(otpd.errors()).not.toContain(token);
  });

  test("in development with other configuration set, a first start on an empty database still makes a key", async () => {
    const otpd = await startOtpd(emptyFolder(), {
      OTP_MASTER_KEY: masterKey,
      OTP_BRAND: "Shop",
      OTP_ALLOWED_COUNTRIES: "NL",
      OTP_DATABASE_URL: "file:elsewhere/otp.db",
      OTP_LOG_LEVEL: "info",
    });
    await otpd.end();
    expect(otpd.output()).toMatch(keyInBanner);
  });

  test("does not promise a key when there is one already", async () => {
    const place = emptyFolder();
    await makeDatabase(join(place, "data/otp.db"));
    await runOtpd(place, ["keys", "create"]);
    const otpd = await startOtpd(place);
    await otpd.end();
    expect(otpd.output()).not.toMatch(/otp_live_\w/);
  });
});

test("a start whose master key is lost is refused, and makes no other", async () => {
  const place = emptyFolder();
  await (await startOtpd(place)).end();
  rmSync(join(place, "data/master.key"));
  const { code, errors } = await runOtpd(place, ["serve"], { OTP_PORT: "0" });
  expect(code).toBe(1);
  expect(errors).toContain(
    "OTP_MASTER_KEY: this database was written with a master key, and data/master.key is not there",
  );
  expect(readdirSync(join(place, "data"))).not.toContain("master.key");
});

describe("in production", () => {
  test("a start without configuration is refused, and makes nothing", async () => {
    const place = emptyFolder();
    const { code, output, errors } = await runOtpd(place, ["serve"], { OTP_ENV: "production", OTP_PORT: "0" });
    expect({ code, output, made: readdirSync(place) }).toEqual({ code: 1, output: "", made: [] });
    for (const name of ["OTP_PROVIDERS", "OTP_MASTER_KEY", "OTP_ALLOWED_COUNTRIES", "OTP_DAILY_MESSAGE_CAP"])
      expect(errors).toContain(`- ${name} `);
  });

  test("a start prints no banner, and makes neither a key nor a master key", async () => {
    const place = emptyFolder();
    const otpd = await startOtpd(place, {
      OTP_ENV: "production",
      OTP_MASTER_KEY: masterKey,
      OTP_ALLOWED_COUNTRIES: "NL",
      OTP_DAILY_MESSAGE_CAP: "5000",
      OTP_PROVIDERS: "webhook",
      OTP_WEBHOOK_URL: "https://sms.example.com/otp",
      OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 3).toString("base64")}`,
    });
    const { output } = await runOtpd(place, ["keys", "list", "--json"]);
    await otpd.end();
    expect({ printed: otpd.output(), keys: output }).toEqual({ printed: "", keys: "[]\n" });
    expect(readdirSync(join(place, "data"))).not.toContain("master.key");
  });
});

/** Whether a port takes a connection at this very moment, asked by another process while this one stands still. */
function accepts(port: number): boolean {
  return spawnSync("bash", ["-c", `exec 3<>/dev/tcp/127.0.0.1/${port}`]).status === 0;
}
